// A version of the job's plan, as a session has it: the nodes that carry it, and what was posted
// by it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/nodes.h"
#include "client/operation_book.h"

namespace tally::client {

struct PlanVersion {
  PlanVersion(BookConfig its_config, Nodes its_nodes, std::vector<std::string> its_names)
      : config(its_config),
        nodes(std::move(its_nodes)),
        names(std::move(its_names)),
        book(std::move(its_config)) {}

  BookConfig config;
  Nodes nodes;
  std::vector<std::string> names;  // of the job's nodes, by number
  OperationBook book;
};

}  // namespace tally::client
