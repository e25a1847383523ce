#include "integrations/python/src/communicator.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/element.h"
#include "base/idle.h"
#include "dataplane/partition/collective.h"

namespace tally::python {
namespace {

constexpr int kBurst = 16;
constexpr int kLongestSleepMs = 100;  // a waiting thread then checks signals and deadlines

std::uint64_t element_size(tally_type type) {
  const auto index = static_cast<std::size_t>(type);
  if (index >= kElementTypes.size()) {
    throw Failure(TALLY_INVALID_ARGUMENT,
                  "type " + std::to_string(index) + " is not one of tally's");
  }
  return kElementTypes[index].bytes;
}

protocol::Shape shape_of(const Request& request, std::uint32_t ranks) {
  return {static_cast<wire::Kind>(request.kind), static_cast<ElementType>(request.type),
          static_cast<Operation>(request.op),    static_cast<std::uint16_t>(request.root),
          static_cast<std::uint16_t>(ranks),     request.count};
}

Outcome outcome_of(const tally_completion& completion) {
  return {completion.status,         completion.culprit,   completion.inputs_gone != 0,
          completion.sum_of_squares, completion.nonfinite, completion.message,
          completion.contributors,   completion.round};
}

}  // namespace

std::uint64_t Communicator::contributed(const Request& request) const {
  return protocol::contribution(shape_of(request, ranks()), static_cast<std::uint16_t>(rank()))
      .count;
}

std::uint64_t Communicator::received(const Request& request) const {
  return protocol::result(shape_of(request, ranks()), static_cast<std::uint16_t>(rank())).count;
}

Communicator::Communicator(const CommunicatorOptions& options)
    : options_(options), process_(::getpid()) {
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  if (!wake_) throw Failure(TALLY_INTERNAL, std::string("eventfd: ") + std::strerror(errno));
  session_ = open_session(options);
  memory_.emplace(session_);
  progress_ = std::thread([this] { progress(); });
}

Communicator::~Communicator() {
  close();
  if (progress_.joinable()) progress_.join();
}

Failure Communicator::last_failure(tally_status status) const {
  return {status, tally_last_error(session_)};
}

void Communicator::close() {
  if (process_ != ::getpid()) {
    if (progress_.joinable()) progress_.detach();
    return;
  }
  std::unique_lock lock(mutex_);
  if (!closing_) {
    closing_ = true;
    changed_.notify_all();
    wake_sleepers(sleepers_);
  }
  if (!on_own_thread()) changed_.wait(lock, [&] { return closed_; });
}

// Runs on the own thread, so that a callback on any thread may close the session.
void Communicator::end_session(std::unique_lock<std::mutex>& lock) {
  auto ends = std::exchange(at_close_, {});
  lock.unlock();
  for (const auto& end : ends) end();
  ends.clear();
  lock.lock();
  changed_.wait(lock, [&] { return copying_ == 0; });
  copied_at_close_ = memory_->copied_bytes();
  memory_.reset();
  tally_close(session_);
  session_ = nullptr;
  device_memory_.clear();
  of_graphs_.clear();
  std::unordered_map<std::uint64_t, Outstanding> cancelled;
  cancelled.swap(outstanding_);
  auto delivered = std::exchange(delivered_, {});
  Outcome outcome;
  outcome.status = TALLY_CANCELLED;
  outcome.message = "the session was closed while the operation was outstanding";
  lock.unlock();
  for (const Ended& one : delivered) one.operation.done(one.outcome);
  for (auto& [user, operation] : cancelled) operation.done(outcome);
  cancelled.clear();
  delivered.clear();
  lock.lock();
  closed_ = true;
  changed_.notify_all();
}

bool Communicator::closed() const {
  const std::lock_guard lock(mutex_);
  return closing_;
}

tally_session_info Communicator::info() const {
  const std::lock_guard lock(mutex_);
  tally_session_info info{};
  info.size = sizeof info;
  if (session_ != nullptr) tally_get_info(session_, &info);
  return info;
}

std::uint64_t Communicator::copied_bytes() const {
  const std::lock_guard lock(mutex_);
  return memory_ ? memory_->copied_bytes() : copied_at_close_;
}

std::uint32_t Communicator::contributors() const {
  const std::lock_guard lock(mutex_);
  return contributors_ > 0 ? contributors_ : ranks();
}

tally_status Communicator::first_failure() const {
  const std::lock_guard lock(mutex_);
  return first_failure_;
}

void Communicator::adopt(void* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!closing_) memory_->adopt(data, bytes);
}

void Communicator::forget(void* data) {
  const std::lock_guard lock(mutex_);
  if (!closing_) memory_->forget(data);
}

void Communicator::add_device_memory(void* data, std::size_t bytes, std::shared_ptr<void> owner) {
  const std::lock_guard lock(mutex_);
  if (closing_) throw Failure(TALLY_CANCELLED, "the session was closed");
  memory_->add_device_memory(data, bytes);
  device_memory_.push_back(std::move(owner));
}

void Communicator::deliver(Done done, Outcome outcome) {
  const std::lock_guard lock(mutex_);
  delivered_.push_back({std::move(outcome), Outstanding{.done = std::move(done)}});
  watched_ = true;
  if (waiters_ == 0) changed_.notify_one();
  wake_sleepers(sleepers_);
}

void Communicator::at_close(std::function<void()> end) {
  const std::lock_guard lock(mutex_);
  if (closing_) throw Failure(TALLY_CANCELLED, "the session was closed");
  at_close_.push_back(std::move(end));
}

tally_operation Communicator::describe(const Request& request, Outstanding& outstanding) {
  const std::uint64_t size = element_size(request.type);
  const std::uint64_t in = contributed(request) * size;
  const std::uint64_t out = received(request) * size;
  if ((in > 0 && request.in == nullptr) || (out > 0 && request.out == nullptr)) {
    const bool input = in > 0 && request.in == nullptr;
    throw Failure(TALLY_INVALID_ARGUMENT,
                  std::string("no ") + (input ? "input" : "output") + " array: this rank needs " +
                      std::to_string(input ? in : out) + " bytes; give an array");
  }
  tally_operation operation{};
  operation.size = sizeof operation;
  operation.kind = request.kind;
  operation.type = request.type;
  operation.op = request.op;
  operation.count = request.count;
  operation.root = request.root;
  operation.priority = request.priority;
  operation.deadline_ms = request.deadline_ms;
  operation.flags = TALLY_PRESERVE | (request.stats ? TALLY_WANT_STATS : 0U);
  operation.stream = request.stream;
  if (request.on_device) {
    if (in > 0) operation.in = memory_->registered(request.in, in);
    if (out > 0) operation.out = memory_->registered(request.out, out);
    return operation;
  }
  if (in > 0) {
    operation.in = memory_->place(request.in, in, outstanding.in);
    if (outstanding.in.data != nullptr) {
      std::memcpy(outstanding.in.data, request.in, in);
      memory_->count_copy(in);
    }
  }
  if (out > 0) {
    operation.out = memory_->place(request.out, out, outstanding.out);
    outstanding.out_data = request.out;
    outstanding.out_bytes = out;
  }
  return operation;
}

void Communicator::post(const Request& request, Done done) {
  std::unique_lock lock(mutex_);
  if (closing_) {
    throw Failure(TALLY_INVALID_ARGUMENT, "the session is closed: open another one");
  }
  const std::uint32_t own_tags = request.on_device ? kOwnDeviceTags : kOwnTags;
  if (request.tag && *request.tag >= own_tags) {
    throw Failure(TALLY_INVALID_ARGUMENT, "tag " + std::to_string(*request.tag) +
                                              ": must be below " + std::to_string(own_tags));
  }
  Outstanding outstanding;
  outstanding.done = std::move(done);
  try {
    tally_operation operation = describe(request, outstanding);
    operation.user = next_user_++;
    if (request.in_graph) {
      operation.tag = kOwnDeviceTags + kTagsInTurn + next_graph_tag_++;
      announce(operation, lock);
      of_graphs_.emplace(operation.user, std::move(outstanding.done));
    } else {
      operation.tag = request.tag ? *request.tag : own_tags + next_tag_++ % kTagsInTurn;
      announce(operation, lock);
      outstanding_.emplace(operation.user, std::move(outstanding));
    }
  } catch (...) {
    if (memory_) {
      memory_->give_back(outstanding.in);
      memory_->give_back(outstanding.out);
    }
    throw;
  }
  watched_ |= !request.awaited;
  if (watched_ && waiters_ == 0) changed_.notify_one();
}

void Communicator::poll() {
  std::unique_lock lock(mutex_);
  take(lock);
}

void Communicator::watch() {
  const std::lock_guard lock(mutex_);
  watched_ = has_work();
  if (watched_ && waiters_ == 0) changed_.notify_one();
}

// Waits while the session has no credit, and while the tag's last operation is outstanding.
void Communicator::announce(const tally_operation& operation, std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (closing_) throw Failure(TALLY_CANCELLED, "the session was closed");
    const tally_status status = tally_post(session_, &operation);
    if (status == TALLY_OK) return;
    const bool later = status == TALLY_NO_CREDIT || status == TALLY_DUPLICATE;
    if (!later || outstanding_.empty()) throw last_failure(status);
    if (take(lock) == 0) {
      lock.unlock();
      ::sched_yield();
      lock.lock();
    }
  }
}

// Copies the results that are in bounces. The lock is not held meanwhile, and the session stays.
void Communicator::copy_results(const std::vector<Ended>& ended,
                                std::unique_lock<std::mutex>& lock) {
  const auto is_bounced = [](const Ended& one) { return one.operation.out.data != nullptr; };
  if (std::none_of(ended.begin(), ended.end(), is_bounced)) return;
  ++copying_;
  lock.unlock();
  for (const Ended& one : ended) {
    const Outstanding& operation = one.operation;
    if (is_bounced(one) && one.outcome.status == TALLY_OK) {
      std::memcpy(operation.out_data, operation.out.data, operation.out_bytes);
    }
  }
  lock.lock();
  for (const Ended& one : ended) {
    if (is_bounced(one)) memory_->count_copy(one.operation.out_bytes);
  }
  if (--copying_ == 0 && closing_) changed_.notify_all();
}

void Communicator::take_completions(std::vector<Ended>& ended) {
  std::array<tally_completion, kBurst> completions{};
  completions[0].size = sizeof completions[0];
  const int count = tally_poll(session_, completions.data(), kBurst);
  for (int i = 0; i < count; ++i) {
    const tally_completion& completion = completions[static_cast<std::size_t>(i)];
    if (const auto graph = of_graphs_.find(completion.user); graph != of_graphs_.end()) {
      ended.push_back({outcome_of(completion), Outstanding{.done = graph->second}});
    } else if (const auto found = outstanding_.find(completion.user); found != outstanding_.end()) {
      ended.push_back({outcome_of(completion), std::move(found->second)});
      outstanding_.erase(found);
    }
  }
}

// The results of a whole burst are in their places before the first callback, because a callback
// may close the session, and with it the bounces.
std::size_t Communicator::take(std::unique_lock<std::mutex>& lock) {
  if (session_ == nullptr) return 0;
  std::vector<Ended> ended = std::exchange(delivered_, {});
  take_completions(ended);
  if (ended.empty()) return 0;
  for (const Ended& one : ended) {
    if (first_failure_ == TALLY_OK) first_failure_ = one.outcome.status;
    if (one.outcome.contributors > 0) contributors_ = one.outcome.contributors;
  }
  copy_results(ended, lock);
  for (Ended& one : ended) {
    memory_->give_back(one.operation.in);
    memory_->give_back(one.operation.out);
  }
  const std::size_t count = ended.size();
  lock.unlock();
  for (Ended& one : ended) one.operation.done(one.outcome);
  ended.clear();  // callbacks may hold tensors, whose end needs the GIL
  lock.lock();
  watched_ &= has_work();
  wake_sleepers(sleepers_);  // a sleeper may wait for one of these
  return count;
}

// Returns whether there may be something to take.
bool Communicator::sleep_until_something(std::unique_lock<std::mutex>& lock) {
  if (session_ == nullptr) return true;
  const tally_status armed = tally_arm(session_);
  if (armed == TALLY_AGAIN) return true;
  std::array<pollfd, 2> sources{{{tally_fd(session_), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  // A session that is over may stay readable.
  if (armed != TALLY_OK) sources[0].fd = -1;
  ++sleepers_;
  lock.unlock();
  const int ready = ::poll(sources.data(), sources.size(), kLongestSleepMs);
  std::uint64_t token = 0;
  if (ready > 0 && sources[1].revents != 0) {
    static_cast<void>(!::read(wake_.get(), &token, sizeof token));
  }
  lock.lock();
  --sleepers_;
  return ready > 0;
}

void Communicator::wake_sleepers(std::uint64_t count) const {
  if (count > 0) static_cast<void>(!::write(wake_.get(), &count, sizeof count));
}

void Communicator::progress() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] {
      watched_ &= has_work();
      return closing_ || (watched_ && waiters_ == 0);
    });
    if (closing_) return end_session(lock);
    if (take(lock) == 0) sleep_until_something(lock);
  }
}

bool Communicator::await(const std::function<bool()>& ended, std::optional<Nanos> until,
                         const std::function<void()>& interrupted) {
  IdlePolicy idle;
  std::unique_lock lock(mutex_);
  ++waiters_;
  const auto leave = [&](bool result) {
    --waiters_;
    if (waiters_ == 0 && watched_) changed_.notify_all();
    return result;
  };
  for (;;) {
    lock.unlock();
    const bool over = ended();
    lock.lock();
    if (over) return leave(true);
    const Nanos now = monotonic_now();
    if (until && now >= *until) return leave(false);
    if (closing_) {  // close() ends everything outstanding
      changed_.wait_for(lock, std::chrono::milliseconds(1));
      continue;
    }
    if (take(lock) > 0) {
      idle.worked(now);
      continue;
    }
    if (idle.next(now) == IdlePolicy::Step::kSleep) {
      sleep_until_something(lock);
      if (interrupted) {
        lock.unlock();
        try {
          interrupted();
        } catch (...) {
          lock.lock();
          leave(false);
          throw;
        }
        lock.lock();
      }
    } else {
      lock.unlock();
      ::sched_yield();
      lock.lock();
    }
  }
}

}  // namespace tally::python
