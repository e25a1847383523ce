// Decides which version of the job's plan carries a post. During a change of the plan it keeps the
// posts that no version carries yet, in their order, and places them when the change allows. After
// a loss it keeps the interrupted operations in the same way until the repair. It also keeps the
// operations that ended outside the book of a version. The session owns it and sends
// the notices. Pure: it knows no node and no clock. One thread at a time uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/operations/operation_book.h"
#include "client/operations/plan_switch.h"
#include "client/operations/tag_rounds.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

// The books of the versions that carry posts. `old` is null except while tags move.
struct Books {
  PlanSwitch& plans;
  OperationBook& now;
  OperationBook* old = nullptr;
  std::uint32_t credit = 0;  // how many posts may wait, besides interrupted operations
};

// Where a post went.
struct PlacedPost {
  Status status = Status::kOk;  // kDuplicate, kNoCredit: it went nowhere, and nothing changed
  PlanSwitch::By by = PlanSwitch::By::kNone;  // kNone: the post waits, or has ended
  std::uint64_t user = 0;
  std::uint32_t round = 0;  // of the tag
  std::uint32_t tag = 0;
  bool cancelled = false;  // the caller has cancelled the interrupted operation: cancel it now
};

class PostPlacement {
 public:
  explicit PostPlacement(std::uint16_t rank) : rank_(rank) {}

  // Appends the notices of the version's shards to `out`; none when the post waits, or has ended at
  // once. `user` is the caller's number of the operation.
  PlacedPost place(const Books& books, const wire::Notice& notice, std::uint64_t user, Nanos now,
                   std::vector<Outbound>& out);
  // Places the first waiting post from index `at` on for which a book has credit. `at` becomes the
  // index of the next candidate. None: no more posts can be placed now.
  std::optional<PlacedPost> place_waiting(const Books& books, std::size_t& at, Nanos now,
                                          std::vector<Outbound>& out);

  std::uint32_t waiting() const { return static_cast<std::uint32_t>(waiting_.size()); }
  bool waits(std::uint32_t tag) const;
  // Ends the waiting post of this tag as cancelled. False: no such post waits. An interrupted
  // operation is cancelled when it is placed, because other ranks do it again too.
  bool cancel(std::uint32_t tag);
  // Ends all waiting posts with this status and culprit. Without a culprit, an interrupted
  // operation for which a node reported a lost node has that verdict.
  void end_waiting(Status status, std::uint16_t culprit = wire::kNoRank);

  // Interrupted operations wait before all other posts.
  void hold(std::vector<Interrupted> interrupted);
  template <typename Visit>
  void for_each_interrupted(Visit visit) const {
    for (const Waiting& post : waiting_) {
      if (post.interrupted) visit(post.user, post.notice.tag, post.round);
    }
  }
  // Ends what the repair has closed: interrupted operations and later posts of rounds before the
  // first ones. `own` has the rounds of this rank. `is_safe(user)` tells whether the result of a
  // round that succeeded elsewhere stands here.
  template <typename IsSafe>
  void close_rounds(const RoundDecision& decided, const RoundsByTag& own, IsSafe is_safe) {
    std::map<std::uint32_t, std::uint32_t> next;
    for (const auto& [tag, rounds] : own) next[tag] = rounds.next;
    std::erase_if(waiting_, [&](const Waiting& post) {
      const auto first = decided.first.find(post.notice.tag);
      if (first == decided.first.end() || post.round >= first->second) return false;
      close(post, decided, is_safe(post.user));
      next[post.notice.tag] = post.round + 1;
      return true;
    });
    close_later(decided, std::move(next));
  }
  // The library does a round of the notice's tag again. The caller's posts of the tag wait until
  // done_again().
  PlacedPost do_again(const wire::Notice& notice, std::uint64_t user);
  bool does_again(std::uint32_t tag) const { return again_.contains(tag); }
  void done_again(std::uint32_t tag) {
    if (--again_[tag] == 0) again_.erase(tag);
  }

  // Takes the finished operations over from the book of a version that goes away.
  void take_over(OperationBook& book);
  bool has_ended() const { return !ended_.empty(); }
  const std::deque<Finished>& ended() const { return ended_; }
  // Takes the oldest operation that ended outside a book; false when there is none.
  bool take(Finished& finished);

 private:
  struct Waiting {
    wire::Notice notice;
    std::uint64_t user = 0;
    std::uint32_t round = 0;  // that place() returned
    bool interrupted = false;
    bool cancelled = false;
    bool again = false;
    std::optional<wire::Completion> verdict = {};  // of an interrupted operation
    std::shared_ptr<const LeftOut> left_out = {};  // of the version that carried it before
  };
  // Rounds that have ended for all ranks before this rank posts them.
  struct Closed {
    std::uint32_t next = 0;
    std::uint32_t end = 0;
    RoundFailure failure;
  };

  static std::uint32_t round_of(const Books& books, std::uint32_t tag);
  static PlacedPost place_in_book(const Books& books, const wire::Notice& notice,
                                  std::uint64_t user, Nanos now, std::vector<Outbound>& out);
  void end(const Waiting& post, Status status, std::uint16_t culprit);
  // A post that was sent to no node has no result, whatever others say.
  void close(const Waiting& post, const RoundDecision& decided, bool safe);
  // `next`: by tag, the next round that this rank posts.
  void close_later(const RoundDecision& decided, std::map<std::uint32_t, std::uint32_t> next);

  std::uint16_t rank_;
  std::vector<Waiting> waiting_;  // oldest first
  std::deque<Finished> ended_;
  std::map<std::uint32_t, Closed> closed_;  // by tag
  std::map<std::uint32_t, int> again_;      // by tag: how many that have not been taken
};

}  // namespace tally::client
