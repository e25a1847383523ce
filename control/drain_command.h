// tallyctl drain: a node gives its trees to the others, and may be stopped then.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/clock.h"
#include "client/rpc_channel.h"

namespace tally::control {

struct DrainArguments {
  std::string node;
  std::string token;
  double wait = 60;  // seconds
  bool undo = false;
};

void add_drain(CLI::App& app, DrainArguments& arguments);

// Prints how it goes. The exit code: 0 the node serves nothing any more (or is back); 1 it still
// does, and stderr says which jobs and why; 2 the coordinator refused. `patience`: for each answer.
int run_drain(client::RpcChannel& channel, const DrainArguments& arguments, bool as_json,
              Nanos patience);

}  // namespace tally::control
