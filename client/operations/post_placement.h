// Decides which version of the job's plan carries a post. During a change of the plan it keeps the
// posts that no version carries yet, in their order, and places them when the change allows. It
// also keeps the operations that ended outside the book of a version. The session owns it and sends
// the notices. Pure: it knows no node and no clock. One thread at a time uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/operations/operation_book.h"
#include "client/operations/plan_switch.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

// The books of the versions that carry posts. `old` is null except while tags move.
struct Books {
  PlanSwitch& plans;
  OperationBook& now;
  OperationBook* old = nullptr;
  std::uint32_t credit = 0;  // how many posts may wait
};

// Where a post went.
struct PlacedPost {
  Status status = Status::kOk;  // kDuplicate, kNoCredit: it went nowhere, and nothing changed
  PlanSwitch::By by = PlanSwitch::By::kNone;  // kNone: the post waits
  std::uint64_t user = 0;
  std::uint32_t round = 0;  // of the tag
};

class PostPlacement {
 public:
  explicit PostPlacement(std::uint16_t rank) : rank_(rank) {}

  // Appends the notices of the version's shards to `out`; none when the post waits. `user` is the
  // caller's number of the operation.
  PlacedPost place(const Books& books, const wire::Notice& notice, std::uint64_t user, Nanos now,
                   std::vector<Outbound>& out);
  // Places the first waiting post from index `at` on for which a book has credit. `at` becomes the
  // index of the next candidate. None: no more posts can be placed now.
  std::optional<PlacedPost> place_waiting(const Books& books, std::size_t& at, Nanos now,
                                          std::vector<Outbound>& out);

  std::uint32_t waiting() const { return static_cast<std::uint32_t>(waiting_.size()); }
  bool waits(std::uint32_t tag) const;
  // Ends the waiting post of this tag as cancelled. False: no such post waits.
  bool cancel(std::uint32_t tag);
  // Ends all waiting posts with this status.
  void end_waiting(Status status);

  // Takes the finished operations over from the book of a version that goes away.
  void take_over(OperationBook& book);
  bool has_ended() const { return !ended_.empty(); }
  // Takes the oldest operation that ended outside a book; false when there is none.
  bool take(Finished& finished);

 private:
  struct Waiting {
    wire::Notice notice;
    std::uint64_t user = 0;
    std::uint32_t round = 0;  // that place() returned
  };

  static PlacedPost place_in_book(const Books& books, const wire::Notice& notice,
                                  std::uint64_t user, Nanos now, std::vector<Outbound>& out);
  void end(const Waiting& post, Status status);

  std::uint16_t rank_;
  std::vector<Waiting> waiting_;  // oldest first
  std::deque<Finished> ended_;
};

}  // namespace tally::client
