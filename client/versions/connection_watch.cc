#include "client/versions/connection_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/debug_steps.h"
#include "base/system/epoll.h"

namespace tally::client {
namespace {

constexpr int kEvents = 64;  // the next call finds the others
// No node has these numbers.
constexpr std::uint32_t kCoordinatorEvent = UINT32_MAX;
constexpr std::uint32_t kAlarmEvent = UINT32_MAX - 1;

Error cannot_make_watch() {
  return {Status::kNoMemory, fmt::format("descriptors for a session: {}", std::strerror(errno))};
}

}  // namespace

ConnectionWatch::ConnectionWatch(const PlanVersion& first, int coordinator)
    : only_connection_(first.nodes.connections()[0].fd()), coordinator_(coordinator) {
  if (coordinator >= 0 || first.nodes.size() > 1) epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
}

Outcome ConnectionWatch::begin(PlanVersion& first) {
  if (coordinator_ < 0 && first.nodes.size() == 1) return Unit{};
  if (!epoll_) return cannot_make_watch();
  if (auto added = add(first); !added) return added;
  if (coordinator_ < 0) return Unit{};
  if (!watch(epoll_.get(), alarm_.fd(), EPOLLIN, kAlarmEvent)) return cannot_make_watch();
  return watch_coordinator(coordinator_);
}

// The epoll forgets a descriptor when it is closed.
Outcome ConnectionWatch::watch_coordinator(int fd) {
  if (fd < 0 || watch(epoll_.get(), fd, EPOLLIN, kCoordinatorEvent)) return Unit{};
  return cannot_make_watch();
}

Outcome ConnectionWatch::add(PlanVersion& version) {
  version.first_event = next_event_;
  next_event_ += static_cast<std::uint32_t>(version.nodes.size());
  if (!version.nodes.connections().watch_in(epoll_.get(), version.first_event))
    return cannot_make_watch();
  return Unit{};
}

void ConnectionWatch::mark_events(const PlanVersions& versions) {
  for (PlanVersion* version : versions.all()) {
    if (!epoll_ || version == versions.next()) version->nodes.connections().mark_all();
  }
  if (!epoll_) return;
  std::array<epoll_event, kEvents> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEvents, 0);
  for (int i = 0; i < count; ++i) {
    const std::uint32_t event = events[static_cast<std::size_t>(i)].data.u32;
    if (event == kAlarmEvent) alarm_.take();
    for (PlanVersion* version : versions.all()) {
      const std::uint32_t node = event - version->first_event;
      if (node < version->nodes.size()) version->nodes.connections().mark(node);
    }
  }
}

bool ConnectionWatch::sleep(const PlanVersions& versions, Nanos now, Nanos until) const {
  const bool armed = versions.arm(kForever);
  if (armed) {
    const Nanos wait = std::max<Nanos>(until - now, 0);
    const timespec timeout{wait / kSecond, wait % kSecond};
    pollfd source{fd(), POLLIN, 0};
    ::ppoll(&source, 1, &timeout, nullptr);
    debug_step(DebugStep::kClientWoken);
  }
  versions.disarm();
  return armed;
}

}  // namespace tally::client
