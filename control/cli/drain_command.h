// tallyctl drain: moves a node's trees to other nodes, after which the node can be stopped.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/clock.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {

struct DrainArguments {
  std::string node;
  double wait = 60;  // seconds
  bool undo = false;
};

void add_drain(CLI::App& app, DrainArguments& arguments);

// Prints the progress. Returns the exit code: 0 when the node serves no job any more (or, with
// undo, serves again); 1 when it still serves jobs, which stderr names with the reasons; 2 when the
// coordinator refused. timeout is the time limit for each answer.
int run_drain(rpc::RpcChannel& channel, const DrainArguments& arguments, bool as_json,
              Nanos timeout);

}  // namespace tally::control
