// tallyctl dump: collects the post-mortem reports of all nodes of a cluster.
#pragma once

#include <string>

#include "base/result.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {

struct DumpArguments {
  std::string job;  // empty: all jobs
  std::string out;  // empty: standard output
};

// Writes one JSON document. Returns a summary for people: a line for each thing that is stuck or
// has failed, and for each node that does not answer. `node` is a member of the cluster, or a node
// that stands alone. A node that does not answer is no error, because it may be the cause.
// `timeout`: for each answer.
Result<std::string> run_dump(rpc::RpcChannel& node, const DumpArguments& arguments, Nanos timeout);

}  // namespace tally::control
