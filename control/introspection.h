// What a node says of itself: the methods node.*. They change nothing but whether a job is traced,
// need no session, and run on the control thread; what the shards own they are asked for.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/clock.h"
#include "control/admission.h"
#include "control/rpc/service.h"
#include "control/shard_set.h"

namespace tally::control {

// What does not change while the node runs.
struct NodeFacts {
  std::string address;
  std::string isa;
  std::string poll;
  bool hugepages = false;
};

class Introspection {
 public:
  // `shards` and `admission` are borrowed.
  Introspection(NodeFacts facts, ShardSet& shards, const Admission& admission);

  void handle(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  // A trace ends with the connection that switched it on.
  void closed(rpc::ConnectionId connection);

 private:
  using FormingKey = std::pair<std::string, std::uint32_t>;  // name and epoch

  void status(rpc::Reply reply) const;
  void stats(rpc::Reply reply) const;
  void jobs(rpc::Reply reply) const;
  void metrics(const rpc::Request& request, rpc::Reply reply) const;
  void trace(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void take_trace(rpc::ConnectionId connection, const rpc::Request& request,
                  rpc::Reply reply) const;

  // The job's last forming that has members.
  Result<const Forming*> find(const std::string& job) const;
  void set_trace(std::uint32_t slot, std::size_t records, std::function<void()> then) const;

  NodeFacts facts_;
  ShardSet& shards_;
  const Admission& admission_;
  Nanos started_;
  std::map<FormingKey, rpc::ConnectionId> traces_;  // who has switched it on
};

}  // namespace tally::control
