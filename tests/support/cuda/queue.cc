#include "tests/support/cuda/queue.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "tests/support/cuda/machine.h"

namespace tally::test::cuda {
namespace {

thread_local const char* device_work = nullptr;

// The thread gets no signals, because the handlers of the tests belong to the other threads.
template <typename Body>
std::thread without_signals(Body body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

const char* runs_for_device() {
  return device_work;
}

Queue::Queue(Machine& machine, ContextState& context, std::uint64_t seed)
    : machine_(machine), context_(context), random_(static_cast<unsigned>(seed)) {
  thread_ = without_signals([this] { run(); });
}

Queue::~Queue() {
  thread_.join();
}

void Queue::enqueue(OperationPtr operation) {
  pending_.push_back(std::move(operation));
  arrived_.notify_one();
}

void Queue::cancel_all() {
  for (const OperationPtr& operation : pending_) operation->cancelled = true;
  machine_.changed.notify_all();
}

void Queue::stop() {
  stopping_ = true;
  cancel_all();
  arrived_.notify_one();
}

void Queue::run() {
  device_work = "a kernel";
  Lock lock(machine_.mutex);
  for (;;) {
    arrived_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
    if (pending_.empty()) return;
    const OperationPtr operation = pending_.front();
    run_one(lock, *operation);
    pending_.pop_front();
    operation->done = true;
    operation->ended = Clock::now();
    operation->after.clear();
    ++machine_.ledger.counters.operations;
    machine_.changed.notify_all();
    // A kernel may own objects, and their destructors must run without the lock.
    auto finished = std::move(operation->work.run);
    operation->work.run = nullptr;
    lock.unlock();
    finished = nullptr;
    lock.lock();
  }
}

void Queue::run_one(Lock& lock, Operation& operation) {
  machine_.changed.wait(lock, [&] {
    return operation.cancelled || std::all_of(operation.after.begin(), operation.after.end(),
                                              [](const OperationPtr& one) { return one->done; });
  });
  if (operation.cancelled || context_.broken != Code::kSuccess) return;
  for (const Use& use : operation.work.uses) {
    if (machine_.valid(use)) continue;
    machine_.misuse(operation.work.what + " runs after its memory " + text_of(use.begin) +
                    " was freed, unregistered or unmapped");
    context_.break_with(Code::kIllegalAddress);
    return;
  }
  operation.started = true;
  const auto longest = machine_.settings.longest_delay.count();
  lock.unlock();
  if (longest > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(
        std::uniform_int_distribution<long>(0, static_cast<long>(longest))(random_)));
  }
  const Code code = operation.work.run ? operation.work.run(operation) : Code::kSuccess;
  lock.lock();
  if (code != Code::kSuccess) context_.break_with(code);
}

HostThread::HostThread() {
  thread_ = without_signals([this] { run(); });
}

HostThread::~HostThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HostThread::call(HostFunction function, void* user) {
  Call call{function, user};
  std::unique_lock lock(mutex_);
  calls_.push_back(&call);
  changed_.notify_all();
  changed_.wait(lock, [&] { return call.done; });
}

void HostThread::run() {
  device_work = "a host function";
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !calls_.empty(); });
    if (calls_.empty()) return;
    Call* const call = calls_.front();
    calls_.pop_front();
    lock.unlock();
    call->function(call->user);
    lock.lock();
    call->done = true;
    changed_.notify_all();
  }
}

}  // namespace tally::test::cuda
