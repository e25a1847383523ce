// A device of SoftAdapter that was opened, and its objects. Only soft_*.cc include this file.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/system/fd.h"
#include "tests/support/roce/cable.h"
#include "tests/support/roce/soft_pair.h"

namespace tally::testing {

// Throws std::logic_error for a misuse by the code under test. A real device would do anything
// then.
[[noreturn]] inline void misused(const std::string& how) {
  throw std::logic_error("soft adapter: " + how);
}

struct SoftRegion : ibv_mr {
  SoftRegion() : ibv_mr{} {}
  unsigned access = 0;
  std::uint64_t begin = 0;    // the address by which peers reach it
  std::byte* data = nullptr;  // where the CPU reaches it
  Mapping mapping{};          // of a dma-buf
};

struct SoftQueue : ibv_cq {
  SoftQueue() : ibv_cq{} {}
  std::deque<ibv_wc> entries{};
  bool notify = false;  // the next completion makes an event
};

struct SoftChannel : ibv_comp_channel {
  SoftChannel() : ibv_comp_channel{} {}
};

// Has a station of its own and a thread that makes progress while the caller sleeps.
class SoftDevice : public ibv_context {
 public:
  using Guard = std::lock_guard<std::mutex>;

  SoftDevice(Cable& cable, ibv_device& device);
  ~SoftDevice();

  Cable& cable() { return cable_; }
  Station& station() { return *station_; }
  std::mutex& lock() { return lock_; }

  // -- with the lock
  std::byte* memory(const ibv_pd* of, std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                    unsigned access) const;
  void complete(ibv_cq& queue, const ibv_wc& completion);
  void announce(ibv_event_type type, ibv_qp* pair);
  // A queue pair has work for this time.
  void wake_by(Nanos time);

  std::map<std::uint32_t, std::unique_ptr<SoftRegion>> regions{};  // by key
  std::map<std::uint32_t, std::unique_ptr<SoftPair>> pairs{};      // by number
  std::deque<ibv_async_event> events{};
  std::size_t others = 0;  // protection domains, queues and channels
  std::uint32_t next_number = 0x100;

 private:
  void run();
  void take(Station::Arrived arrived, Nanos now);

  Cable& cable_;
  std::shared_ptr<Station> station_;
  mutable std::mutex lock_;
  bool ends_ = false;
  Nanos wakes_at_ = 0;
  std::thread thread_;
};

// Makes the descriptor of an event readable.
void make_readable(int eventfd);

}  // namespace tally::testing
