// What FakeVerbs keeps behind the handles that it gives. Of fake_*.cc alone.
#pragma once

#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "dataplane/transport/verbs/fake_verbs.h"

namespace tally::transport::verbs {

using Guard = std::lock_guard<std::recursive_mutex>;

// A fault of the code under test, which a device would answer by doing anything at all.
[[noreturn]] inline void misused(const std::string& how) {
  throw std::logic_error("fake verbs: " + how);
}

template <typename Objects, typename Handle>
auto& find(Objects& objects, Handle* handle) {
  for (auto& object : objects) {
    if (&object.handle == handle) return object;
  }
  misused("an object that is not there");
}

template <typename Objects, typename Handle>
void drop(Objects& objects, Handle* handle) {
  if (objects.remove_if([handle](auto& object) { return &object.handle == handle; }) != 1) {
    misused("an object is destroyed that is not there");
  }
}

struct FakeVerbs::DeviceObject {
  ibv_device handle{};
  Setup setup;
};
struct FakeVerbs::ContextObject {
  ibv_context handle{};
  DeviceObject* device = nullptr;
  std::deque<ibv_async_event> events{};
};
struct FakeVerbs::QueueObject {
  ibv_cq handle{};
  std::deque<ibv_wc> completions{};
  bool notify = false;
};
struct FakeVerbs::PairObject {
  ibv_qp handle{};
  std::uint32_t peer = 0;
  ibv_mtu mtu = IBV_MTU_256;
  ibv_qp_cap room{};
  unsigned access = 0;       // of the peer
  std::size_t unpolled = 0;  // sends posted and not yet taken from the completion queue
  std::deque<Request> sends{};
  std::deque<ibv_recv_wr> receives{};
  std::deque<std::vector<ibv_sge>> pieces{};  // of the receives
};

}  // namespace tally::transport::verbs
