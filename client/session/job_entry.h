// How a rank enters its job. The rank asks the coordinator for the nodes of the job, and opens a
// session with each node. A node without a cluster answers that it is the only node.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/result.h"
#include "client/connections/shared_by_connections.h"
#include "client/operations/operation_book.h"
#include "client/plans/known_coordinator.h"
#include "client/session/session_options.h"
#include "client/versions/nodes.h"
#include "client/versions/plan_versions.h"
#include "net/rpc/rpc_channel.h"
#include "net/rpc/terms.h"

namespace tally::client {

struct JobEntry {
  BookConfig book;
  Nodes nodes;
  std::vector<std::string> names;  // of all nodes of the job, by number; empty when the node has no
                                   // cluster
  std::uint32_t deadline_ms = 0;   // of operations that set none, as the node says; milliseconds
  const Crc32c* crc32c = nullptr;  // null when this rank gives no checksums
  // One log line for each node: the transport and the reason for it.
  struct Line {
    bool warning = false;
    std::string text;
  };
  std::vector<Line> log_lines;
  KnownCoordinator coordinator{};
  // By tag: the first round in which this rank takes part; other tags begin at round 0.
  std::map<std::uint32_t, std::uint32_t> first{};
};

// Moves the version of the plan, with its nodes, out of the entry.
std::unique_ptr<PlanVersion> version_of(JobEntry& entry);

// Opens all sessions, and waits at most options.connect_timeout. Precondition: `options.checksums`
// is set.
Result<JobEntry> enter_job(const SessionOptions& options, const SharedByConnections& shared);
// Opens the sessions of the next version of the job's plan, as the coordinator describes it.
Result<JobEntry> enter_version(const SessionOptions& options, const SharedByConnections& shared,
                               const nlohmann::json& version, Nanos deadline);

}  // namespace tally::client
