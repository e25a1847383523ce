// tallyctl trace: switches a job's trace on, collects it, and writes the file.
#pragma once

#include <string>

#include "base/result.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {

struct TraceArguments {
  std::string job;
  std::string out;
  double seconds = 1;
  double timeout = 5;  // seconds, for each answer
};

// Traces until the time is over or SIGINT or SIGTERM comes, and writes what it has collected in
// both cases. Returns a sentence that says what was written.
Result<std::string> run_trace(rpc::RpcChannel& channel, const TraceArguments& arguments);

}  // namespace tally::control
