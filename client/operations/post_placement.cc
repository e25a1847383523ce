#include "client/operations/post_placement.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tally::client {
namespace {

// The node's verdict arrives at the operation's deadline. When none has arrived this long after the
// deadline, the client fences the node off.
constexpr Nanos kVerdictGrace = 5 * kSecond;

}  // namespace

PlacedPost PostPlacement::place(const Books& books, const wire::Notice& notice, std::uint64_t user,
                                Nanos now, std::vector<Outbound>& out) {
  if (const auto found = closed_.find(notice.tag); found != closed_.end() && !waits(notice.tag)) {
    Closed& closed = found->second;
    const Waiting post{notice, user, closed.next};
    end(post, closed.failure.status, closed.failure.culprit);
    if (++closed.next == closed.end) closed_.erase(found);
    return {Status::kOk, PlanSwitch::By::kNone, user, post.round};
  }
  const bool holds = books.plans.holds() || again_.contains(notice.tag);
  // Otherwise the book itself finds the duplicate.
  if (holds || books.old != nullptr || !waiting_.empty()) {
    const bool carried = books.now.outstanding(notice.tag) && !again_.contains(notice.tag);
    const bool outstanding = waits(notice.tag) || carried ||
                             (books.old != nullptr && books.old->outstanding(notice.tag));
    if (outstanding) return {Status::kDuplicate};
  }
  if (!holds) return place_in_book(books, notice, user, now, out);
  const auto held = std::count_if(waiting_.begin(), waiting_.end(),
                                  [](const Waiting& post) { return !post.interrupted; });
  if (held >= static_cast<std::ptrdiff_t>(books.credit)) return {Status::kNoCredit};
  const bool again = std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& post) {
    return post.again && post.notice.tag == notice.tag;
  });
  const std::uint32_t round = round_of(books, notice.tag) + (again ? 1 : 0);
  waiting_.push_back({notice, user, round});
  return {Status::kOk, PlanSwitch::By::kNone, user, round};
}

// The round that the next post of the tag gets.
std::uint32_t PostPlacement::round_of(const Books& books, std::uint32_t tag) {
  if (books.old != nullptr) {
    const std::uint32_t round = books.old->next_round(tag);
    if (books.plans.carrier(tag, round) == PlanSwitch::By::kOld) return round;
  }
  return books.now.next_round(tag);
}

PlacedPost PostPlacement::place_in_book(const Books& books, const wire::Notice& notice,
                                        std::uint64_t user, Nanos now, std::vector<Outbound>& out) {
  using By = PlanSwitch::By;
  By by = By::kNew;
  if (books.old != nullptr) {
    by = books.plans.carrier(notice.tag, books.old->next_round(notice.tag));
  }
  OperationBook& book = by == By::kOld ? *books.old : books.now;
  const std::size_t before = out.size();
  const Nanos until = now + notice.deadline_ms * kMillisecond + kVerdictGrace;
  const std::uint32_t round = book.next_round(notice.tag);
  const Status status = book.post(notice, user, until, out);
  if (status != Status::kOk) return {status};
  if (books.old != nullptr) books.plans.posted(notice.tag, round);
  if (out.size() == before) by = By::kNone;  // it has ended
  return {status, by, user, round};
}

std::optional<PlacedPost> PostPlacement::place_waiting(const Books& books, std::size_t& at,
                                                       Nanos now, std::vector<Outbound>& out) {
  for (; !books.plans.holds() && at < waiting_.size(); ++at) {
    const Waiting& post = waiting_[at];
    if (!post.again && again_.contains(post.notice.tag)) continue;
    PlacedPost placed = place_in_book(books, post.notice, post.user, now, out);
    if (placed.status != Status::kOk) continue;
    placed.tag = post.notice.tag;
    placed.cancelled = post.cancelled;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    return placed;
  }
  return std::nullopt;
}

bool PostPlacement::waits(std::uint32_t tag) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [tag](const Waiting& one) { return one.notice.tag == tag && !one.again; });
}

bool PostPlacement::cancel(std::uint32_t tag) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [tag](const Waiting& one) {
    return one.notice.tag == tag && !one.again;
  });
  if (found == waiting_.end()) return false;
  if (found->interrupted) {
    found->cancelled = true;
    return true;
  }
  end(*found, Status::kCancelled, rank_);
  waiting_.erase(found);
  return true;
}

void PostPlacement::end_waiting(Status status, std::uint16_t culprit) {
  for (const Waiting& post : std::exchange(waiting_, {})) end(post, status, culprit);
}

// Ends a post outside any book. The result of an interrupted one may have begun to land.
void PostPlacement::end(const Waiting& post, Status status, std::uint16_t culprit) {
  wire::Completion verdict;
  verdict.status = status;
  verdict.culprit = culprit;
  if (status != Status::kOk && post.verdict && culprit == wire::kNoRank) verdict = *post.verdict;
  const bool started = status != Status::kOk && post.interrupted;
  ended_.push_back({verdict, post.user, post.notice.tag, post.round, started, post.left_out});
}

void PostPlacement::hold(std::vector<Interrupted> interrupted) {
  std::vector<Waiting> held;
  for (Interrupted& one : interrupted) {
    const bool again = again_.contains(one.notice.tag);
    // A rank that a node reports as lost may only be interrupted, too.
    if (one.verdict && one.verdict->status != Status::kNodeLost) one.verdict.reset();
    held.push_back({one.notice, one.user, one.notice.round, true, one.cancelled, again, one.verdict,
                    one.left_out});
  }
  waiting_.insert(waiting_.begin(), std::make_move_iterator(held.begin()),
                  std::make_move_iterator(held.end()));
}

PlacedPost PostPlacement::do_again(const wire::Notice& notice, std::uint64_t user) {
  ++again_[notice.tag];
  Waiting post{notice, user, notice.round};
  post.again = true;
  waiting_.insert(waiting_.begin(), post);
  return {Status::kOk, PlanSwitch::By::kNone, user, notice.round};
}

void PostPlacement::close(const Waiting& post, const RoundDecision& decided, bool safe) {
  const auto failed = decided.failed.find(post.notice.tag);
  const RoundFailure failure = failed != decided.failed.end() ? failed->second : RoundFailure{};
  const bool well = failed == decided.failed.end() || post.round < failure.succeeded;
  Waiting ended = post;
  ended.verdict.reset();  // the loss is repaired
  if (well && safe && post.interrupted) {
    end(ended, Status::kOk, wire::kNoRank);
  } else if (well) {
    end(ended, Status::kNodeLost, wire::kNoRank);
  } else {
    end(ended, failure.status, failure.culprit);
  }
}

void PostPlacement::close_later(const RoundDecision& decided,
                                std::map<std::uint32_t, std::uint32_t> next) {
  for (const auto& [tag, closed] : closed_) next[tag] = closed.next;
  for (const auto& [tag, first] : decided.first) {
    if (next[tag] >= first) continue;
    const auto failed = decided.failed.find(tag);
    closed_[tag] = {next[tag], first,
                    failed != decided.failed.end() ? failed->second : RoundFailure{}};
  }
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
