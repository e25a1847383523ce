// The coordinator's methods plan.set and plan.show. Control thread only.
#pragma once

#include <string>
#include <unordered_map>

#include "control/coordinator/state/coordinator.h"
#include "net/server/service.h"

namespace tally::control {

class PlanMethods {
 public:
  // Borrows the coordinator.
  explicit PlanMethods(Coordinator& coordinator) : coordinator_(coordinator) {}

  void handle(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void closed(rpc::ConnectionId connection) { uploads_.erase(connection); }

 private:
  struct Wish {
    std::string job;
    std::string domain;
  };

  void set(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  std::size_t uploaded_bytes() const;
  Outcome is_known(const std::string& job) const;
  Outcome take_back(const std::string& job, const std::string& machines);
  // Sets the plan of `text`; returns the names of the domains that are in force now.
  Result<std::vector<std::string>> accept(const std::string& text, const Wish& wish);
  void show(const rpc::Request& request, rpc::Reply reply) const;

  Coordinator& coordinator_;
  std::unordered_map<rpc::ConnectionId, std::string> uploads_;  // text received so far
};

}  // namespace tally::control
