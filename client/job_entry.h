// How a rank gets into its job: it asks the coordinator where the job's nodes are, and opens a
// session with each. A node that stands alone says that it is the only one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/result.h"
#include "client/nodes.h"
#include "client/operation_book.h"
#include "client/rpc_channel.h"
#include "client/session_options.h"

namespace tally::client {

struct JobEntry {
  BookConfig book;
  Nodes nodes;
  std::vector<std::string> names;  // of the job's nodes, by number; none: the node stands alone
  std::uint32_t deadline_ms = 0;   // of operations that name none: the node's wish
  const Crc32c* crc32c = nullptr;  // null: no checksums are wanted
  // A line for each node: which transport and why.
  struct Line {
    bool warning = false;
    std::string text;
  };
  std::vector<Line> said;
  // Where the job was opened, if its nodes have a coordinator: it says how the plan changes.
  std::optional<RpcChannel> coordinator{};
};

// `options.checksums` is set. Waits until all is open, as long as options.connect_timeout.
Result<JobEntry> enter_job(const SessionOptions& options);
// The next version of the job's plan, as the coordinator describes it.
Result<JobEntry> enter_version(const SessionOptions& options, const nlohmann::json& version,
                               Nanos deadline);

}  // namespace tally::client
