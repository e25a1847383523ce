// A version of the job's plan, as a session has it: the nodes that carry it, and what was posted
// by it.
#pragma once

#include <utility>

#include "client/nodes.h"
#include "client/operation_book.h"

namespace tally::client {

struct PlanVersion {
  PlanVersion(BookConfig its_config, Nodes its_nodes)
      : config(its_config), nodes(std::move(its_nodes)), book(std::move(its_config)) {}

  BookConfig config;
  Nodes nodes;
  OperationBook book;
};

}  // namespace tally::client
