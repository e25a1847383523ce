// The objects of FakeVerbs behind the handles that it gives. Only fake_*.cc include this file.
#pragma once

#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/transport/fake_verbs.h"

namespace tally::transport::verbs {

using Guard = std::lock_guard<std::recursive_mutex>;

// Throws std::logic_error for a misuse by the code under test. A real device would do anything
// then.
[[noreturn]] inline void misused(const std::string& how) {
  throw std::logic_error("fake verbs: " + how);
}

// The object with this handle. Throws std::logic_error when there is none.
template <typename Objects, typename Handle>
auto& find(Objects& objects, Handle* handle) {
  for (auto& object : objects) {
    if (&object.handle == handle) return object;
  }
  misused("an object that is not there");
}

// Removes the object with this handle. Throws std::logic_error when there is none.
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
  bool notify = false;  // the next completion makes an event
};
struct FakeVerbs::PairObject {
  ibv_qp handle{};
  std::uint32_t peer = 0;  // number of the queue pair to which it is connected
  ibv_mtu mtu = IBV_MTU_256;
  ibv_qp_cap room{};
  unsigned access = 0;       // what the peer may do: IBV_ACCESS_REMOTE_*
  std::size_t unpolled = 0;  // posted sends whose completion was not polled yet
  std::deque<Request> sends{};
  std::deque<ibv_recv_wr> receives{};
  std::deque<std::vector<ibv_sge>> pieces{};  // of each receive
};

}  // namespace tally::transport::verbs
