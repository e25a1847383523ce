// One rank's session, for many threads: operations on any memory, completions as callbacks.
//
// Posting goes straight to the node, on the caller's thread. Completions are taken by whoever waits
// for one (await), and by a thread of the communicator's own, which sleeps while somebody waits and
// while nothing is outstanding that needs it.
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

#include "base/clock.h"
#include "base/fd.h"
#include "integrations/python/src/failure.h"
#include "integrations/python/src/memory_map.h"

namespace tally::python {

struct CommunicatorOptions {
  std::string address;  // empty: libtally's default
  std::string job = "default";
  std::string token;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint32_t connect_timeout_ms = 0;
  std::uint32_t deadline_ms = 0;
  std::optional<bool> checksums;  // none: as the environment says
};

struct Request {
  tally_kind kind = TALLY_ALL_REDUCE;
  tally_type type = TALLY_F32;
  tally_op op = TALLY_SUM;
  std::uint64_t count = 0;   // elements of the whole operation, the same at every rank
  const void* in = nullptr;  // what this rank contributes; null where it contributes nothing
  void* out = nullptr;       // where its result goes; null where it gets none
  std::uint32_t root = 0;
  std::uint32_t priority = 0;     // 0..255, higher goes first
  std::uint32_t deadline_ms = 0;  // 0: the session's
  bool stats = false;
  // Somebody will await it, poll or watch: waking a thread for it would only cost the core that the
  // node may need.
  bool awaited = false;
  std::optional<std::uint32_t> tag;  // none: the next in the order of posting, as at every rank
};

struct Outcome {
  tally_status status = TALLY_OK;
  std::uint32_t culprit = TALLY_NO_RANK;
  bool inputs_gone = false;
  double sum_of_squares = 0;    // with stats, of the result
  std::uint64_t nonfinite = 0;  // with stats
  std::string message;          // of a failure

  Failure failure() const { return {status, message, culprit, inputs_gone}; }
};

// On whatever thread takes the completion. May post; must not wait.
using Done = std::function<void(const Outcome&)>;

class Communicator {
 public:
  // Tags of operations that name none; users' own are below.
  static constexpr std::uint32_t kOwnTags = 1u << 30;

  // Throws Failure.
  explicit Communicator(const CommunicatorOptions& options);
  // Outstanding operations end as cancelled; no callback comes afterwards. Not from a callback.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Buffers belong to the node until `done`. Waits while there is no credit. Throws Failure when
  // nothing was announced; then `done` is never called.
  void post(const Request& request, Done done);
  // Takes completions until `ended()`, or the time has passed (false). Holds no lock meanwhile;
  // `ended` is called without one. `interrupted` is called now and then, and may throw.
  bool await(const std::function<bool()>& ended, std::optional<Nanos> until,
             const std::function<void()>& interrupted = {});

  // Takes what has completed, without waiting.
  void poll();
  // Completions of what is outstanding are taken also if nobody awaits them.
  void watch();

  // The node uses this memory in place from now on (moved into a memfd at the same address).
  void adopt(void* data, std::size_t bytes);
  void forget(void* data);

  // Ends the session: what is outstanding is cancelled, later posts fail.
  void close();
  bool closed() const;
  // Is this the thread that takes completions?
  bool on_own_thread() const { return progress_.get_id() == std::this_thread::get_id(); }

  const std::string& address() const { return options_.address; }
  std::uint32_t rank() const { return options_.rank; }
  std::uint32_t ranks() const { return options_.ranks; }
  // Elements that this rank contributes to the operation, and gets of its result.
  std::uint64_t contributed(const Request& request) const;
  std::uint64_t received(const Request& request) const;
  tally_session_info info() const;
  // Between memory that is not the node's and the node's; also after close().
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

  void announce(const tally_operation& operation, std::unique_lock<std::mutex>& lock);
  tally_operation describe(const Request& request, Outstanding& outstanding);
  std::size_t take(std::unique_lock<std::mutex>& lock);
  void progress();
  bool sleep_until_something(std::unique_lock<std::mutex>& lock);
  void wake_sleepers(std::uint64_t count) const;
  Failure last_failure(tally_status status) const;

  CommunicatorOptions options_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  tally_session* session_ = nullptr;
  std::optional<MemoryMap> memory_;
  std::unordered_map<std::uint64_t, Outstanding> outstanding_;
  std::uint64_t next_user_ = 1;
  std::uint32_t next_tag_ = 0;
  int waiters_ = 0;
  std::uint64_t sleepers_ = 0;  // on descriptors: waiters, and the thread of its own
  bool watched_ = false;        // something outstanding that nobody may await
  bool closing_ = false;
  std::uint64_t copied_at_close_ = 0;
  UniqueFd wake_;  // a token for each sleeper to be woken
  pid_t process_;  // that opened the session: in a child of a fork there is no thread to join
  std::thread progress_;
};

}  // namespace tally::python
