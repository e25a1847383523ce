// One rank's session for many threads: operations on any memory, with completions as callbacks.
//
// A post goes straight to the node on the caller's thread. A thread in await() takes completions.
// So does the communicator's own thread. It sleeps while another thread waits, and while no
// outstanding operation needs it.
#pragma once

#include <sys/types.h>
#include <tally/tally.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/system/fd.h"
#include "integrations/python/src/failure.h"
#include "integrations/python/src/memory_map.h"
#include "integrations/python/src/session.h"

namespace tally::python {

struct Request {
  tally_kind kind = TALLY_ALL_REDUCE;
  tally_type type = TALLY_F32;
  tally_op op = TALLY_SUM;
  std::uint64_t count = 0;   // number of elements of the whole operation, equal at every rank
  const void* in = nullptr;  // this rank's contribution; null when it has none
  void* out = nullptr;       // memory for this rank's result; null when it gets none
  std::uint32_t root = 0;
  std::uint32_t priority = 0;     // 0..255; a higher value goes first
  std::uint32_t deadline_ms = 0;  // 0 means the session's deadline
  bool stats = false;
  // A thread will await, poll or watch the operation. So the communicator's own thread need not
  // wake, which would take the core that the node may need.
  bool awaited = false;
  // No value: the next tag in the order of posts, which must be the same at every rank.
  std::optional<std::uint32_t> tag;
  // The buffers are memory of add_device_memory(), and `stream` (a CUstream) orders the operation.
  bool on_device = false;
  void* stream = nullptr;
  // The stream is being captured: each launch of the CUDA graph is a round of the operation. `done`
  // is called for each round that fails, until the session ends.
  bool in_graph = false;
};

struct Outcome {
  tally_status status = TALLY_OK;
  std::uint32_t culprit = TALLY_NO_RANK;
  bool inputs_gone = false;
  double sum_of_squares = 0;    // with stats: of the result
  std::uint64_t nonfinite = 0;  // with stats
  std::string message;          // on failure what happened; on success the ranks that are left out
  std::uint32_t contributors = 0;  // on success: ranks of the job less those that are left out
  std::uint32_t round = 0;         // of the operation's tag

  static Outcome of(const Failure& failure) {
    return {failure.status, failure.culprit, failure.inputs_gone, 0, 0, failure.what()};
  }
  Failure failure() const { return {status, message, culprit, inputs_gone}; }
};

// A callback. It runs on the thread that takes the completion. It may post but must not wait.
using Done = std::function<void(const Outcome&)>;

class Communicator {
 public:
  // First tag of operations that name none. Tags from users must be below it.
  static constexpr std::uint32_t kOwnTags = 1u << 30;
  // The same for operations on memory of devices, because tally.h wants tags below 2^21 for these.
  static constexpr std::uint32_t kOwnDeviceTags = 1u << 20;
  // Operations without a tag use this many tags in turn. It is more than can be outstanding. The
  // tags after these are of operations of graphs, which keep them.
  static constexpr std::uint32_t kTagsInTurn = 4096;

  // Throws Failure.
  explicit Communicator(const CommunicatorOptions& options);
  // Ends outstanding operations as cancelled. No callback runs afterwards. Must not run in a
  // callback.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Announces an operation. The node owns the buffers until the call of `done`. Waits while the
  // session has no credit, or while the last operation of the tag is outstanding. Throws Failure
  // when nothing was announced; then `done` is never called.
  void post(const Request& request, Done done);
  // Takes completions until ended() returns true. Returns false when the time has passed first.
  // Calls `ended` and `interrupted` without a lock. Calls `interrupted` now and then; it may throw.
  bool await(const std::function<bool()>& ended, std::optional<Nanos> until,
             const std::function<void()>& interrupted = {});

  // Takes the completions that have arrived, without waiting.
  void poll();
  // Makes the communicator's own thread take the completions of outstanding operations when no
  // thread awaits them.
  void watch();

  // Lets the node use this memory in place (moves it into a memfd at the same address).
  void adopt(void* data, std::size_t bytes);
  void forget(void* data);
  // Registers memory of one allocation of a CUDA device, until the end of the session. `owner`
  // keeps the memory, and is released after that.
  void add_device_memory(void* data, std::size_t bytes, std::shared_ptr<void> owner);

  // Ends an operation that went another way than through this session: a thread that takes
  // completions calls `done`. From any thread, until the last function of at_close() has returned.
  void deliver(Done done, Outcome outcome);
  // `end` runs when the session begins to end, on the communicator's own thread, and may deliver().
  // Throws Failure when the session is closed.
  void at_close(std::function<void()> end);

  // Ends the session: outstanding operations end as cancelled, on the communicator's own thread,
  // and later posts fail. Returns after that. In a callback on the own thread it returns at once,
  // and the session ends after the callback. A caller must not hold what a callback waits for.
  void close();
  bool closed() const;
  // Returns true on the communicator's own thread.
  bool on_own_thread() const { return progress_.get_id() == std::this_thread::get_id(); }

  const CommunicatorOptions& options() const { return options_; }
  const std::string& address() const { return options_.address; }
  std::uint32_t rank() const { return options_.rank; }
  std::uint32_t ranks() const { return options_.ranks; }
  // Return the number of elements that this rank contributes to the operation, and the number that
  // it gets of the result.
  std::uint64_t contributed(const Request& request) const;
  std::uint64_t received(const Request& request) const;
  tally_session_info info() const;
  // Returns the contributors of the operation that ended well last, or ranks() before the first
  // one.
  std::uint32_t contributors() const;
  // Returns why the first operation failed, or TALLY_OK.
  tally_status first_failure() const;
  // Returns the bytes copied between the node's memory and other memory. Also valid after close().
  std::uint64_t copied_bytes() const;

 private:
  struct Outstanding {
    Done done;
    Bounce in, out;
    void* out_data = nullptr;
    std::uint64_t out_bytes = 0;
  };
  struct Ended {
    Outcome outcome;
    Outstanding operation;
  };

  bool has_work() const {
    return !outstanding_.empty() || !of_graphs_.empty() || !delivered_.empty();
  }
  void announce(const tally_operation& operation, std::unique_lock<std::mutex>& lock);
  tally_operation describe(const Request& request, Outstanding& outstanding);
  std::size_t take(std::unique_lock<std::mutex>& lock);
  void take_completions(std::vector<Ended>& ended);
  void copy_results(const std::vector<Ended>& ended, std::unique_lock<std::mutex>& lock);
  void progress();
  bool sleep_until_something(std::unique_lock<std::mutex>& lock);
  void wake_sleepers(std::uint64_t count) const;
  void end_session(std::unique_lock<std::mutex>& lock);
  Failure last_failure(tally_status status) const;

  CommunicatorOptions options_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  tally_session* session_ = nullptr;
  std::optional<MemoryMap> memory_;
  std::vector<std::shared_ptr<void>> device_memory_;
  std::unordered_map<std::uint64_t, Outstanding> outstanding_;
  std::unordered_map<std::uint64_t, Done> of_graphs_;  // operations that CUDA graphs post
  std::vector<Ended> delivered_;
  std::vector<std::function<void()>> at_close_;
  std::uint64_t next_user_ = 1;
  std::uint32_t next_tag_ = 0;
  std::uint32_t next_graph_tag_ = 0;
  int waiters_ = 0;
  std::uint64_t sleepers_ = 0;  // threads that sleep on descriptors: waiters and the own thread
  bool watched_ = false;        // there is an operation that no thread may await
  int copying_ = 0;             // threads that copy results out of bounces
  bool closing_ = false;
  bool closed_ = false;  // the session is over, and all callbacks have run
  std::uint64_t copied_at_close_ = 0;
  tally_status first_failure_ = TALLY_OK;
  std::uint32_t contributors_ = 0;  // 0: no operation has ended well yet
  UniqueFd wake_;                   // an eventfd with one token for each sleeper to wake
  pid_t process_;                   // opened the session; a forked child has no thread to join
  std::thread progress_;
};

}  // namespace tally::python
