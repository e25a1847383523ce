// The operations of XLA programs over one rank's session.
//
// An operation has two calls. start() copies the input and never waits, so it does not hold a
// thread of XLA. finish() asks for the result. Between both calls the program computes, or starts
// other operations.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "integrations/python/src/communicator.h"

namespace tally::python {

// Runs once, when the result is in its place or the operation has failed.
using Finished = std::function<void(const Outcome&)>;

// Any thread may call the functions. They throw Failure.
class Exchange {
 public:
  explicit Exchange(std::shared_ptr<Communicator> communicator);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Copies the input of `request` and returns the number of the operation for finish(). `run`
  // identifies the execution of the program. The runs, and the operations in each run, must have
  // the same order at every rank. The function ignores `request.out` and `request.tag`. It throws
  // the session's first failure when there is one, because the ranks may be out of step.
  std::uint64_t start(const Request& request, std::int64_t run);
  // Copies the result to `out` as soon as the operation has ended, and then calls `finished`: on
  // this thread if the operation has ended, else on the exchange's thread. `out` must have the size
  // of the result and stay valid until then.
  void finish(std::uint64_t number, void* out, Finished finished);
  // Ends the session. Outstanding operations fail as cancelled. Must not run in `finished`.
  void close();

  const Communicator& communicator() const { return *communicator_; }

 private:
  class Block;
  struct Operation;
  using Shared = std::shared_ptr<Operation>;

  std::uint32_t next_tag(std::int64_t run);
  void post_queued();
  void ended(const Shared& operation, const Outcome& outcome);
  void deliver();

  const std::shared_ptr<Communicator> communicator_;
  const std::uint64_t credit_;  // operations that may be outstanding without a wait
  std::mutex mutex_;            // guards all below
  std::unordered_map<std::uint64_t, Shared> operations_;  // started and not finished
  std::deque<Shared> queued_;                             // started and not announced
  std::uint64_t outstanding_ = 0;
  std::optional<std::int64_t> run_;  // of the last start
  std::uint32_t runs_ = 0;
  std::uint32_t in_run_ = 0;  // operations of this run
  bool posting_ = false;      // a thread is in the loop of post_queued()
  std::optional<Outcome> failure_;
  std::deque<Shared> deliveries_;  // ended, and finish() waits for them
  std::condition_variable changed_;
  bool closing_ = false;
  std::thread thread_;
};

// Returns the exchange of this process, or null before the first set_exchange().
std::shared_ptr<Exchange> current_exchange();
// Replaces the exchange of this process, and closes the one before.
void set_exchange(std::shared_ptr<Exchange> exchange);

}  // namespace tally::python
