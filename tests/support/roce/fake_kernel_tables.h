// The kernel's tables as a test sets them. Any thread.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "dataplane/transport/roce/kernel/kernel_tables.h"

namespace tally::testing {

namespace roce = transport::roce;

class FakeKernelTables final : public roce::KernelTables {
 public:
  roce::RouteAnswer route_to(const roce::IpAddress& target) override {
    const std::lock_guard lock(mutex_);
    ++questions_;
    const auto found = routes_.find(target);
    return found == routes_.end() ? roce::RouteAnswer{.is_answered = true} : found->second;
  }
  roce::HopEntry entry(const roce::IpAddress& hop) override {
    const std::lock_guard lock(mutex_);
    return entries_[hop];
  }
  // The kernel then asks the network.
  void use(const roce::IpAddress& hop) override {
    const std::lock_guard lock(mutex_);
    used_.push_back(hop);
    roce::HopEntry& entry = entries_[hop];
    if (entry.state != roce::HopState::kStale) entry.state = roce::HopState::kAsking;
  }

  void set_route(const roce::IpAddress& target, const roce::RouteAnswer& route) {
    const std::lock_guard lock(mutex_);
    routes_[target] = route;
  }
  void set_entry(const roce::IpAddress& hop, const roce::HopEntry& entry) {
    const std::lock_guard lock(mutex_);
    entries_[hop] = entry;
  }
  std::vector<roce::IpAddress> used() const {
    const std::lock_guard lock(mutex_);
    return used_;
  }
  int questions() const {
    const std::lock_guard lock(mutex_);
    return questions_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<roce::IpAddress, roce::RouteAnswer> routes_;
  std::map<roce::IpAddress, roce::HopEntry> entries_;
  std::vector<roce::IpAddress> used_;
  int questions_ = 0;
};

}  // namespace tally::testing
