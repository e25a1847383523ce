// tallyctl trace: switches a job's trace on, collects, and writes the file.
#pragma once

#include <string>

#include "base/result.h"
#include "client/rpc_channel.h"

namespace tally::control {

struct TraceArguments {
  std::string job;
  std::string out;
  double seconds = 1;
  double timeout = 5;  // for each answer
};

// Until the time is over or SIGINT or SIGTERM comes; what was collected is written in either case.
// What was written, in words.
Result<std::string> run_trace(client::RpcChannel& channel, const TraceArguments& arguments);

}  // namespace tally::control
