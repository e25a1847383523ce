// A store for tests, whose writes settle when the test requests it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "control/coordinator/state/memory_store.h"

namespace tally::control {

class HeldStore : public MemoryStore {
 public:
  // Writes from now on settle only by settle(); before this call they settle at once.
  void hold() { settled_ = written_; }
  // Settles all writes, or the first `writes` of them.
  void settle() { settle(written_); }
  void settle(std::uint64_t writes) {
    settled_ = writes;
    while (!waiting_.empty() && waiting_.front().first <= settled_) {
      const auto then = std::move(waiting_.front().second);
      waiting_.pop_front();
      then(Unit{});
    }
  }
  // Fails all waiting callbacks, and all later ones.
  void lose(const char* why) {
    lost_ = Error{Status::kUnavailable, why};
    for (const auto& [writes, then] : std::exchange(waiting_, {})) then(*lost_);
  }
  std::uint64_t written() const { return written_; }
  bool has_settled() const { return written_ <= settled_; }

  void put(NodeId node, const Member& member) override {
    MemoryStore::put(node, member);
    ++written_;
  }
  void erase(NodeId node) override {
    MemoryStore::erase(node);
    ++written_;
  }
  void put_departed(NodeId node, const Member& member) override {
    MemoryStore::put_departed(node, member);
    ++written_;
  }
  void erase_departed(NodeId node) override {
    MemoryStore::erase_departed(node);
    ++written_;
  }
  void put(SharedJob job) override {
    MemoryStore::put(std::move(job));
    ++written_;
  }
  void erase_job(std::uint32_t epoch) override {
    MemoryStore::erase_job(epoch);
    ++written_;
  }
  void put_plan(const std::string& job, std::shared_ptr<const SetPlan> plan) override {
    MemoryStore::put_plan(job, std::move(plan));
    ++written_;
  }
  void erase_plan(const std::string& job) override {
    MemoryStore::erase_plan(job);
    ++written_;
  }
  void put_speeds(std::map<std::string, Measured> speeds) override {
    MemoryStore::put_speeds(std::move(speeds));
    ++written_;
  }
  std::uint32_t next_epoch() override { return ++written_, MemoryStore::next_epoch(); }
  void observe_epoch(std::uint32_t epoch) override {
    MemoryStore::observe_epoch(epoch);
    ++written_;
  }
  NodeId next_node() override { return ++written_, MemoryStore::next_node(); }
  std::uint64_t next_placement() override { return ++written_, MemoryStore::next_placement(); }

  void when_settled(std::function<void(const Outcome&)> then) override {
    if (lost_) return then(*lost_);
    if (waiting_.empty() && has_settled()) return then(Unit{});
    waiting_.emplace_back(written_, std::move(then));
  }

 private:
  std::uint64_t written_ = 0;
  std::uint64_t settled_ = UINT64_MAX;
  std::deque<std::pair<std::uint64_t, std::function<void(const Outcome&)>>> waiting_;
  std::optional<Error> lost_;
};

}  // namespace tally::control
