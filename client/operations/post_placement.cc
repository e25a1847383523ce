#include "client/operations/post_placement.h"

#include <algorithm>
#include <utility>

namespace tally::client {
namespace {

// The node's verdict arrives at the operation's deadline. When none has arrived this long after the
// deadline, the client fences the node off.
constexpr Nanos kVerdictGrace = 5 * kSecond;

}  // namespace

PlacedPost PostPlacement::place(const Books& books, const wire::Notice& notice, std::uint64_t user,
                                Nanos now, std::vector<Outbound>& out) {
  const bool holds = books.plans.holds();
  // Otherwise the book itself finds the duplicate.
  if (holds || books.old != nullptr || !waiting_.empty()) {
    const bool outstanding = waits(notice.tag) || books.now.outstanding(notice.tag) ||
                             (books.old != nullptr && books.old->outstanding(notice.tag));
    if (outstanding) return {Status::kDuplicate};
  }
  if (!holds) return place_in_book(books, notice, user, now, out);
  if (waiting_.size() >= books.credit) return {Status::kNoCredit};
  const std::uint32_t round = books.now.next_round(notice.tag);
  waiting_.push_back({notice, user, round});
  return {Status::kOk, PlanSwitch::By::kNone, user, round};
}

PlacedPost PostPlacement::place_in_book(const Books& books, const wire::Notice& notice,
                                        std::uint64_t user, Nanos now, std::vector<Outbound>& out) {
  using By = PlanSwitch::By;
  By by = By::kNew;
  if (books.old != nullptr) {
    by = books.plans.carrier(notice.tag, books.old->next_round(notice.tag));
  }
  OperationBook& book = by == By::kOld ? *books.old : books.now;
  const std::size_t first = out.size();
  const Nanos until = now + notice.deadline_ms * kMillisecond + kVerdictGrace;
  const Status status = book.post(notice, user, until, out);
  if (status != Status::kOk) return {status};
  const std::uint32_t round = out[first].notice.round;
  if (books.old != nullptr) books.plans.posted(notice.tag, round);
  return {status, by, user, round};
}

std::optional<PlacedPost> PostPlacement::place_waiting(const Books& books, std::size_t& at,
                                                       Nanos now, std::vector<Outbound>& out) {
  for (; !books.plans.holds() && at < waiting_.size(); ++at) {
    const Waiting& post = waiting_[at];
    const PlacedPost placed = place_in_book(books, post.notice, post.user, now, out);
    if (placed.status != Status::kOk) continue;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    return placed;
  }
  return std::nullopt;
}

bool PostPlacement::waits(std::uint32_t tag) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [tag](const Waiting& one) { return one.notice.tag == tag; });
}

bool PostPlacement::cancel(std::uint32_t tag) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [tag](const Waiting& one) { return one.notice.tag == tag; });
  if (found == waiting_.end()) return false;
  end(*found, Status::kCancelled);
  waiting_.erase(found);
  return true;
}

void PostPlacement::end_waiting(Status status) {
  for (const Waiting& post : std::exchange(waiting_, {})) end(post, status);
}

// Ends a post that was sent to no node.
void PostPlacement::end(const Waiting& post, Status status) {
  wire::Completion verdict;
  verdict.status = status;
  verdict.culprit = status == Status::kCancelled ? rank_ : wire::kNoRank;
  ended_.push_back({verdict, post.user, post.notice.tag, post.round, false});
}

void PostPlacement::take_over(OperationBook& book) {
  Finished finished;
  while (book.take(finished)) ended_.push_back(finished);
}

bool PostPlacement::take(Finished& finished) {
  if (ended_.empty()) return false;
  finished = ended_.front();
  ended_.pop_front();
  return true;
}

}  // namespace tally::client
