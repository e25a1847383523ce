// The methods node.*, by which a node reports on itself. They run on the control thread, need no
// session, and change nothing except whether a job is traced. Introspection asks the shards for the
// data that shards own.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/timeouts/fault_timeouts.h"
#include "control/access/caller.h"
#include "control/node/jobs/admission.h"
#include "control/node/reports/ended_jobs.h"
#include "control/node/shards/shard_set.h"
#include "net/server/connection_counts.h"
#include "net/server/service.h"

namespace tally::control {

// Facts that do not change while the node runs.
struct NodeFacts {
  std::string address;
  std::string isa;
  std::string poll;
  bool hugepages = false;
  // The server's present counts of connections; empty when there is no server.
  std::function<rpc::ConnectionCounts()> connections;
};

class Introspection {
 public:
  // Gets the refused requests, for the log.
  using Audit = std::function<void(rpc::ConnectionId, std::string_view method, const Error&)>;

  // `shards`, `admission` and `ended` are borrowed. A caller sees the jobs that may_see() lets it
  // see.
  Introspection(NodeFacts facts, ShardSet& shards, const Admission& admission, EndedJobs& ended,
                std::function<Caller(rpc::ConnectionId)> caller_of, Audit audit);

  void set_timeouts(const FaultTimeouts& timeouts) { timeouts_ = timeouts; }

  void handle(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  // Ends the traces that this connection switched on.
  void closed(rpc::ConnectionId connection);

 private:
  using JobInstanceKey = std::pair<std::string, std::uint32_t>;  // name and epoch

  void status(rpc::Reply reply) const;
  void stats(rpc::Reply reply) const;
  void jobs(rpc::ConnectionId connection, rpc::Reply reply) const;
  void metrics(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply) const;
  void trace(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void take_trace(rpc::ConnectionId connection, const rpc::Request& request,
                  rpc::Reply reply) const;
  void dump(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply) const;
  void dump_running(const JobInstance& instance, rpc::Reply reply) const;
  nlohmann::json dumpable(const Caller& caller) const;

  // The job's latest instance that has members.
  Result<const JobInstance*> find(const std::string& job) const;
  // The same, for a caller that may see it. For another caller there is no such job.
  Result<const JobInstance*> find_for(rpc::ConnectionId connection, std::string_view method,
                                      const std::string& job) const;
  // Logs that a caller asked for a job that exists and that it may not see.
  void audit_hidden(rpc::ConnectionId connection, std::string_view method,
                    const std::string& job) const;
  void refuse(rpc::ConnectionId connection, std::string_view method, rpc::Reply& reply,
              const std::string& why) const;
  void set_trace(protocol::JobId job_id, std::size_t records, std::function<void()> then) const;

  NodeFacts facts_;
  FaultTimeouts timeouts_;
  ShardSet& shards_;
  const Admission& admission_;
  EndedJobs& ended_;
  std::function<Caller(rpc::ConnectionId)> caller_of_;
  Audit audit_;
  Nanos started_;
  std::map<JobInstanceKey, rpc::ConnectionId> traces_;  // the connection that switched the trace on
};

}  // namespace tally::control
