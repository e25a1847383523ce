// A rank's session with the nodes of its job: control connections, links to the shards, the regions
// and the book of operations, driven by the caller's thread. tally.cc gives it the C ABI.
//
// While the job's plan changes (plan_switch.h) there are two of all that, but the regions: one for
// each version.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/block_stats.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/idle.h"
#include "base/result.h"
#include "client/job_entry.h"
#include "client/nodes.h"
#include "client/operation_book.h"
#include "client/plan_news.h"
#include "client/plan_switch.h"
#include "client/plan_version.h"
#include "client/post.h"
#include "client/region.h"
#include "client/session_options.h"
#include "dataplane/protocol/collective.h"

namespace tally::client {

struct Completed {
  Status status = Status::kOk;
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  std::uint64_t user = 0;
  std::uint16_t culprit = wire::kNoRank;
  bool inputs_gone = false;
  BlockStats stats;
  std::string message;  // empty on success
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(SessionOptions options);
  // Cancels what is outstanding, says goodbye, frees the regions.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Result<Region*> add_region(std::unique_ptr<Region> region);
  Outcome remove_region(Region* region);
  bool owns(const Region* region) const;

  // The round of the tag that it is.
  Result<std::uint32_t> post(const Post& post);
  Outcome cancel(std::uint32_t tag);
  // Takes a completion without waiting.
  bool poll(Completed& completed);
  // Waits for one until `until`; kAgain: none came. kInvalidArgument: nothing is outstanding.
  Outcome wait(Completed& completed, Nanos until);
  // As wait, for this round of this tag; others are kept for poll and wait.
  Outcome wait_for(std::uint32_t tag, std::uint32_t round, Completed& completed);

  // The same for the session's life.
  int fd() const { return epoll_ ? epoll_.get() : now_->nodes.first().fd(); }
  const Nodes& nodes() const { return now_->nodes; }
  // Of all nodes, also of a version to come.
  MemoryNeeds memory_needs() const;
  // "shm", or "shm, fabric" where they differ; the text stays for the session's life.
  const char* transport();
  bool arm();  // false: there are completions already

  const BookConfig& book_config() const { return now_->config; }
  const SessionOptions& options() const { return options_; }
  bool gives_checksums() const { return crc32c_ != nullptr; }
  // Between the caller's memory and the node's.
  std::uint64_t copied_bytes() const { return copied_bytes_; }
  void log(int level, const std::string& text) const;

 private:
  // What is to be done when an operation ends; by the book's `user`.
  struct Pending {
    Post post;
    Extents extents;
    Region* side = nullptr;  // for statistics and checksums
  };

  // Those that there are: now_, old_, next_.
  struct Versions {
    std::array<PlanVersion*, 3> all{};
    std::size_t count = 0;
    PlanVersion* const* begin() const { return all.data(); }
    PlanVersion* const* end() const { return all.data() + count; }
  };
  // A post that waits for the coordinator's word, or for credit after it.
  struct Held {
    wire::Notice notice;
    std::uint32_t index = 0;  // of its Pending
    std::uint32_t round = 0;  // that its caller was told
  };

  Session(SessionOptions options, JobEntry entry);
  Outcome watch(const PlanVersion& version);

  Result<std::uint32_t> number_everywhere(const Region& region);
  Outcome take_side_region(const protocol::Shape& shape, Pending& pending, wire::Notice& notice);
  Result<Region*> side_region(std::uint64_t bytes);
  void give_checksums(const protocol::Shape& shape, const Pending& pending) const;
  // Into a book, or to those that wait; the notices are in outbound_, of version *by_.
  Status place(const wire::Notice& notice, std::uint32_t index);
  bool is_outstanding(std::uint32_t tag) const;
  std::uint32_t outstanding() const;
  std::string overdue_nodes(Nanos now) const;
  Nanos earliest_until() const;
  // `contribution`: goes with the notice.
  void send(PlanVersion& by, std::span<const std::byte> contribution = {});
  std::span<const std::byte> eager_contribution(const Pending& pending) const;
  // Takes what the shards sent; true when there was something.
  bool pump();
  bool pump(PlanVersion& version);
  void look_around(Nanos now);  // the node's death, the end of patience
  bool hear_nodes();            // false: the session is over
  void end_held(const Held& held, Status status);
  void lose(Status status, const std::string& why);
  void fence_all();
  Versions versions() const;

  // -- the plan changes (session_plans.cc) --
  void hear_news(Nanos now);
  void take_word(PlanWord word);
  void prepare(const PlanWord& word);
  Result<std::unique_ptr<PlanVersion>> make_version(const PlanWord& word);
  void go();
  void leave_old();
  bool needs_old() const;
  bool let_go_of_old();
  void call_off(const std::string& why);
  void drop_next();
  // Nobody uses it. False: its memory could not be had back, and the session is over.
  bool close(std::unique_ptr<PlanVersion> version);
  void release();
  void lose_coordinator(const Error& why);
  void say_if_moved();

  bool take(Completed& completed);
  // `names`: of the nodes of the version that it went by.
  void finish(const Finished& finished, const std::vector<std::string>& names,
              Completed& completed);
  void add_stats(const Pending& pending, Completed& completed) const;
  void sleep(Nanos now, Nanos until);
  void drain();

  SessionOptions options_;
  UniqueFd epoll_;  // of all links and the coordinator, where there may be several
  std::unique_ptr<PlanVersion> now_;   // that new rounds go by
  std::unique_ptr<PlanVersion> old_;   // while tags move to `now_`
  std::unique_ptr<PlanVersion> next_;  // until all ranks know of it
  PlanVersion* by_ = nullptr;          // of outbound_
  PlanSwitch plans_;
  std::optional<PlanNews> news_;
  std::uint32_t changing_to_ = 0;  // epoch of the change's version
  bool said_moved_ = false;
  Nanos word_until_ = kForever;     // a coordinator that is silent then is gone
  std::vector<Held> held_;          // oldest first
  std::deque<Finished> ended_;      // that no book has any more
  const Crc32c* crc32c_ = nullptr;  // null: no checksums are given
  IdlePolicy idle_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<std::unique_ptr<Region>> side_regions_;  // a pool
  std::vector<Pending> pending_;
  std::vector<std::uint32_t> free_pending_;
  std::vector<Completed> set_aside_;  // by wait_for, oldest first
  std::vector<Outbound> outbound_;
  std::set<std::string, std::less<>> transports_;  // that were said
  std::optional<Error> lost_;                      // set: the session is over
  Nanos next_look_ = 0;
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace tally::client
