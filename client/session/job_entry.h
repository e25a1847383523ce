// How a rank enters its job. The rank asks the coordinator for the nodes of the job, and opens a
// session with each node. A node without a cluster answers that it is the only node.
#pragma once

#include <algorithm>
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
#include "client/session/nodes.h"
#include "client/session/plan_versions.h"
#include "client/session/session_options.h"
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
  // The channel on which the job was opened, when the nodes have a coordinator. The coordinator
  // announces changes of the plan on it.
  std::optional<rpc::RpcChannel> coordinator{};
  rpc::HighestTerm term{};  // of the coordinators that have answered this rank
  bool repairs = false;     // the coordinator repairs jobs that have lost a node
};

// Moves the version of the plan, with its nodes, out of the entry.
std::unique_ptr<PlanVersion> version_of(JobEntry& entry);

// When a rank stops asking for its job: at its deadline, or some time after the first answer that
// the job is unavailable. In that time nodes can join a coordinator that has just started, or elect
// the next one.
class JoinTimeout {
 public:
  explicit JoinTimeout(Nanos deadline) : deadline_(deadline) {}
  void answered(Nanos now) { first_ = std::min(first_, now); }
  // The nodes elect their coordinator, which takes longer.
  void set_elected() { joining_ = kElecting; }
  bool is_over(Nanos now) const {
    return now >= deadline_ || (first_ <= now && now - first_ >= joining_);
  }

 private:
  static constexpr Nanos kJoining = 1 * kSecond;
  static constexpr Nanos kElecting = 15 * kSecond;

  Nanos deadline_;
  Nanos first_ = kForever;
  Nanos joining_ = kJoining;
};

// Opens all sessions, and waits at most options.connect_timeout. Precondition: `options.checksums`
// is set.
Result<JobEntry> enter_job(const SessionOptions& options, const SharedByConnections& shared);
// Opens the sessions of the next version of the job's plan, as the coordinator describes it.
Result<JobEntry> enter_version(const SessionOptions& options, const SharedByConnections& shared,
                               const nlohmann::json& version, Nanos deadline);

}  // namespace tally::client
