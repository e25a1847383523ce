// One collective of torch.distributed in progress. It consists of one or more operations.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "integrations/python/src/communicator.h"
#include "integrations/python/src/torch/tensors.h"

namespace tally::python {

// Puts the words of torch's own backends before the message. Frameworks decide by them whether to
// start the ranks again.
Failure with_known_words(const Failure& failure);

// What works for tensors of CPUs and of devices have in common: the end of their operations.
class CollectiveWork : public c10d::Work {
 public:
  struct Call {
    c10d::OpType kind;
    std::uint64_t sequence = 0;  // the number of the collective in its group
    Tensors inputs{};            // for the profiler
    Tensors outputs{};           // the result of the work
  };

  bool isSuccess() const final;
  Tensors result() final { return call_.outputs; }
  std::uint64_t getSequencenumber() const final { return call_.sequence; }
  // Ends the session of the group, and with it all of the group's works: nodes cannot take one
  // operation back.
  void abort() final;

  bool ended() const { return ended_.load(std::memory_order_acquire); }

 protected:
  // torch's profiler shows a span from here to the end, with the shapes of the inputs. One
  // operation has begun already: the caller's own, which ends when all others have begun.
  CollectiveWork(const std::shared_ptr<Communicator>& communicator, Call call);

  void begin_operations(std::size_t count) { left_.fetch_add(count, std::memory_order_relaxed); }
  void end_operation(const Outcome& outcome);
  std::optional<Failure> failure() const;  // the first one so far
  // The last operation has ended. Calls finish() and then set_ended().
  virtual void end_all() = 0;
  void set_ended() { ended_.store(true, std::memory_order_release); }

  // Takes completions that have arrived.
  void poll() const;
  // Null when it is being destroyed, which ends the work soon.
  std::shared_ptr<Communicator> communicator() const { return communicator_.lock(); }
  // The host waits for the end; 0: without a limit. Throws Failure when the time passes first.
  void wait_on_host(std::chrono::milliseconds timeout) const;

  const Call call_;

 private:
  bool await_close(std::optional<Nanos> until) const;

  std::weak_ptr<Communicator> communicator_;
  std::atomic<std::size_t> left_{1};
  mutable std::mutex failure_mutex_;
  std::optional<Failure> failure_;
  std::atomic<bool> ended_{false};
};

class Work final : public CollectiveWork {
 public:
  // The future returns the outputs. When all operations have succeeded, `finish` runs first, on the
  // thread that takes the last completion.
  Work(const std::shared_ptr<Communicator>& communicator, Call call, std::function<void()> finish);

  // Posts all requests. `keep` has tensors that must live until the end. When a post fails, the
  // work ends with that failure, and wait() throws it.
  static void start(const c10::intrusive_ptr<Work>& work, const std::vector<Request>& requests,
                    Tensors keep);

  bool wait(std::chrono::milliseconds timeout) override;
  bool isCompleted() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void end_all() override;

  Tensors keep_;
  std::function<void()> finish_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace tally::python
