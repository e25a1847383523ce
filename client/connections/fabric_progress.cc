#include "client/connections/fabric_progress.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/idle.h"
#include "base/system/blocked_signals.h"
#include "base/system/epoll.h"
#include "dataplane/transport/shm/segment.h"

namespace tally::client {
namespace {

namespace shm = transport::shm;  // for its doorbells: Dekker's algorithm between two threads

constexpr std::uint32_t kWake = UINT32_MAX;  // number among the events
constexpr int kLongestSleepMs = 10'000;
constexpr int kRetryMs = 1;
constexpr Nanos kQuiet = 1 * kMillisecond;  // an entry without work for this long rests
constexpr int kEventsAtOnce = 32;

Error no_descriptors() {
  return {Status::kNoMemory, fmt::format("descriptors for a session: {}", std::strerror(errno))};
}

}  // namespace

// Lets another thread use the entries. The progress thread stands still between two turns
// meanwhile.
class FabricThread::Pause {
 public:
  explicit Pause(FabricThread& thread) : thread_(thread) {
    thread_.pauses_.fetch_add(1);
    ::eventfd_write(thread_.wake_.get(), 1);
    thread_.mutex_.lock();
  }
  ~Pause() {
    thread_.pauses_.fetch_sub(1);
    thread_.mutex_.unlock();
    thread_.go_on_.notify_one();
  }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  FabricThread& thread_;
};

Result<std::unique_ptr<FabricThread>> FabricThread::start() {
  std::unique_ptr<FabricThread> made(new FabricThread());
  made->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  made->wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->epoll_ || !made->wake_ ||
      !watch(made->epoll_.get(), made->wake_.get(), EPOLLIN, kWake)) {
    return no_descriptors();
  }
  const BlockedSignals blocked;
  made->thread_ = std::thread([thread = made.get()] { thread->run(); });
  return made;
}

FabricThread::~FabricThread() {
  stopping_.store(true, std::memory_order_relaxed);
  ::eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

Outcome FabricThread::add(FabricWork& work) {
  const Pause pause(*this);
  auto free = std::find_if(entries_.begin(), entries_.end(),
                           [](const Entry& entry) { return entry.work == nullptr; });
  if (free == entries_.end()) free = entries_.emplace(free);
  const auto number = static_cast<std::uint32_t>(free - entries_.begin());
  if (!watch(epoll_.get(), work.wait_fd(), EPOLLIN, number)) return no_descriptors();
  *free = {&work, false, monotonic_now()};
  return Unit{};
}

void FabricThread::remove(FabricWork& work) {
  const Pause pause(*this);
  for (Entry& entry : entries_) {
    if (entry.work != &work) continue;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, work.wait_fd(), nullptr);
    entry = {};
  }
}

void FabricThread::wake() {
  if (shm::ring_needed(sleeps_)) ::eventfd_write(wake_.get(), 1);
}

// -- the thread itself ---------------------------------------------------------------------------

void FabricThread::run() {
  IdlePolicy idle;
  std::unique_lock lock(mutex_);
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (pauses_.load() > 0) go_on_.wait(lock, [this] { return pauses_.load() == 0; });
    const Nanos now = monotonic_now();
    if (turn_all(now)) {
      idle.worked(now);
    } else {
      idle.rest(now, [this] { sleep(); });
    }
  }
}

// A connection that rests costs no call of libfabric while other connections have work.
bool FabricThread::turn_all(Nanos now) {
  bool any = false, one_rests = false;
  for (Entry& entry : entries_) {
    if (entry.work == nullptr) continue;
    if (entry.rests && !entry.work->has_work()) {
      one_rests = true;
      continue;
    }
    entry.rests = false;
    if (entry.work->turn()) {
      any = true;
      entry.worked_at = now;
    } else if (now - entry.worked_at >= kQuiet) {
      one_rests |= rest(entry);
    }
  }
  if (one_rests) wait_for_events(0);
  return any;
}

bool FabricThread::rest(Entry& entry) {
  entry.rests = !entry.work->is_held_up() && entry.work->may_sleep();
  return entry.rests;
}

void FabricThread::sleep() {
  shm::fall_asleep(sleeps_);
  bool may = pauses_.load() == 0 && !stopping_.load(std::memory_order_relaxed);
  bool held_up = false;
  for (Entry& entry : entries_) {
    if (entry.work == nullptr) continue;
    held_up |= entry.work->is_held_up();
    may =
        may && !entry.work->has_work() && (entry.rests || entry.work->is_held_up() || rest(entry));
  }
  if (may) wait_for_events(held_up ? kRetryMs : kLongestSleepMs);
  shm::wake_up(sleeps_);
}

// Entries whose descriptors are readable do not rest any more.
void FabricThread::wait_for_events(int timeout_ms) {
  std::array<epoll_event, kEventsAtOnce> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsAtOnce, timeout_ms);
  for (int i = 0; i < count; ++i) {
    const std::uint32_t number = events[static_cast<std::size_t>(i)].data.u32;
    if (number == kWake) {
      eventfd_t rung = 0;
      ::eventfd_read(wake_.get(), &rung);
    } else {
      entries_[number].rests = false;
    }
  }
}

// -- all of them ---------------------------------------------------------------------------------

Result<FabricThread*> FabricProgress::join() {
  const std::lock_guard lock(mutex_);
  const auto fewer = [](const Member& one, const Member& other) {
    return one.connections < other.connections;
  };
  auto least = std::min_element(members_.begin(), members_.end(), fewer);
  const bool busy = least == members_.end() || least->connections > 0;
  if (busy && members_.size() < kMostThreads) {
    auto started = FabricThread::start();
    if (!started) return started.error();
    least = members_.insert(members_.end(), {std::move(started).value(), 0});
  }
  ++least->connections;
  return least->thread.get();
}

void FabricProgress::leave(const FabricThread& thread) {
  const std::lock_guard lock(mutex_);
  for (Member& member : members_) {
    if (member.thread.get() == &thread) --member.connections;
  }
}

}  // namespace tally::client
