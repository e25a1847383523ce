// A store in memory, which ends with its process. Writes settle at once, because no coordinator
// takes over.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "control/coordinator/records/store.h"

namespace tally::control {

class MemoryStore : public Store {
 public:
  void put(NodeId node, const Member& member) override { members_[node] = member; }
  void erase(NodeId node) override { members_.erase(node); }
  const Members& members() const override { return members_; }

  void put_departed(NodeId node, const Member& member) override { departed_[node] = member; }
  void erase_departed(NodeId node) override { departed_.erase(node); }
  const Members& departed() const override { return departed_; }

  void put(SharedJob job) override {
    const std::uint32_t epoch = job->epoch;
    jobs_[epoch] = std::move(job);
  }
  void erase_job(std::uint32_t epoch) override { jobs_.erase(epoch); }
  const JobsByEpoch& jobs() const override { return jobs_; }

  void put_plan(const std::string& job, std::shared_ptr<const SetPlan> plan) override {
    plans_[job] = std::move(plan);
  }
  void erase_plan(const std::string& job) override { plans_.erase(job); }
  const PlansByJob& plans() const override { return plans_; }

  void put_speeds(std::map<std::string, Measured> speeds) override { speeds_ = std::move(speeds); }
  const std::map<std::string, Measured>& speeds() const override { return speeds_; }

  std::uint32_t next_epoch() override { return ++last_epoch_; }
  void observe_epoch(std::uint32_t epoch) override { last_epoch_ = std::max(last_epoch_, epoch); }
  NodeId next_node() override { return ++last_node_; }
  std::uint64_t next_placement() override { return ++last_placement_; }

  void when_settled(std::function<void(const Outcome&)> then) override { then(Unit{}); }

 protected:
  std::uint32_t last_epoch() const { return last_epoch_; }
  // The last numbers that another coordinator has given.
  void continue_from(std::uint32_t epoch, NodeId node, std::uint64_t placement) {
    last_epoch_ = epoch;
    last_node_ = node;
    last_placement_ = placement;
  }

 private:
  Members members_;
  Members departed_;
  JobsByEpoch jobs_;
  PlansByJob plans_;
  std::map<std::string, Measured> speeds_;
  std::uint32_t last_epoch_ = 0;
  NodeId last_node_ = 0;
  std::uint64_t last_placement_ = 0;
};

}  // namespace tally::control
