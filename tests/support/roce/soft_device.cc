#include "tests/support/roce/soft_device.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tally::testing {
namespace {

constexpr int kBurst = 64;  // frames, before callers have their turn

}  // namespace

void make_readable(int eventfd) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(eventfd, &one, sizeof one));
}

SoftDevice::SoftDevice(Cable& cable, ibv_device& the_device)
    : ibv_context{}, cable_(cable), station_(cable.plug_in()) {
  device = &the_device;
  async_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { run(); });
}

SoftDevice::~SoftDevice() {
  {
    const Guard guard(lock_);
    ends_ = true;
  }
  station_->ring();
  thread_.join();
  ::close(async_fd);
}

void SoftDevice::run() {
  std::unique_lock guard(lock_);
  while (!ends_) {
    const Nanos now = monotonic_now();
    for (int i = 0; i < kBurst; ++i) {
      auto arrived = station_->receive(now);
      if (!arrived) break;
      take(std::move(*arrived), now);
    }
    wakes_at_ = INT64_MAX;
    for (const auto& [number, pair] : pairs) {
      pair->progress(now);
      wakes_at_ = std::min(wakes_at_, pair->timer());
    }
    const Nanos until = wakes_at_;
    guard.unlock();
    station_->wait(until);
    guard.lock();
  }
}

void SoftDevice::take(Station::Arrived arrived, Nanos now) {
  const auto pair = pairs.find(arrived.packet.pair);
  if (pair != pairs.end()) pair->second->take(std::move(arrived), now);
}

void SoftDevice::wake_by(Nanos time) {
  if (time >= wakes_at_) return;
  wakes_at_ = time;
  station_->ring();
}

std::byte* SoftDevice::memory(const ibv_pd* of, std::uint32_t key, std::uint64_t address,
                              std::uint64_t bytes, unsigned access) const {
  const auto found = regions.find(key);
  if (found == regions.end()) return nullptr;
  const SoftRegion& region = *found->second;
  const std::uint64_t begin = region.begin;
  const bool is_inside = address >= begin && address - begin <= region.length &&
                         bytes <= region.length - (address - begin);
  if (region.pd != of || !is_inside || (region.access & access) != access) return nullptr;
  return region.data + (address - begin);
}

void SoftDevice::complete(ibv_cq& queue, const ibv_wc& completion) {
  auto& its = static_cast<SoftQueue&>(queue);
  if (its.entries.size() >= static_cast<std::size_t>(its.cqe)) {
    misused("a completion queue overruns");
  }
  its.entries.push_back(completion);
  if (std::exchange(its.notify, false)) make_readable(its.channel->fd);
}

void SoftDevice::announce(ibv_event_type type, ibv_qp* pair) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = pair;
  events.push_back(event);
  make_readable(async_fd);
}

}  // namespace tally::testing
