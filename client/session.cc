#include "client/session.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/debug_steps.h"
#include "client/words.h"
#include "dataplane/protocol/granules.h"

namespace tally::client {
namespace {

constexpr Nanos kLookEvery = 1 * kMillisecond;
constexpr Nanos kLookAnyway =
    20 * kMillisecond;  // also without a pause, for the coordinator's news
// The node's verdict comes at the operation's deadline. A node that has not spoken this long after
// it will not: the client fences it off.
constexpr Nanos kPatience = 5 * kSecond;
constexpr Nanos kFenceTimeout = 1 * kSecond;
constexpr std::size_t kSlots = 32;
// A contribution from here on, with those of other ranks, is probably not in the caches.
constexpr std::uint64_t kBeyondCaches = 4 << 20;

}  // namespace

Result<std::uint32_t> Session::post(const Post& post) {
  if (lost_) return *lost_;
  Pending pending{post, {}, nullptr};
  const protocol::Shape shape{post.notice.kind, post.notice.type,    post.notice.operation,
                              post.notice.root, book_config().ranks, post.notice.count};
  pending.extents.in = protocol::contribution(shape, book_config().rank);
  pending.extents.out = protocol::result(shape, book_config().rank);
  if (auto fine = check(post, pending.extents, gives_checksums()); !fine) return fine.error();

  wire::Notice notice = post.notice;
  if (notice.deadline_ms == 0) notice.deadline_ms = options_.deadline_ms;
  // Where a rank has no bytes, nothing is said of where they would be.
  notice.in_offset = notice.out_offset = 0;
  if (pending.extents.in.count > 0) {
    notice.in_region = post.in->id;
    notice.in_offset = post.notice.in_offset;
  }
  if (pending.extents.out.count > 0) {
    notice.out_region = post.out->id;
    notice.out_offset = post.notice.out_offset;
  }
  if (auto taken = take_side_region(shape, pending, notice); !taken) return taken.error();
  if (free_pending_.empty()) {
    free_pending_.push_back(static_cast<std::uint32_t>(pending_.size()));
    pending_.emplace_back();
  }
  const std::uint32_t index = free_pending_.back();
  const Status status = place(notice, index);
  if (status == Status::kDuplicate) {
    return Error{status,
                 fmt::format("tag {} is outstanding: take its completion first", notice.tag)};
  }
  if (status != Status::kOk) {
    return Error{status, fmt::format("tag {}: no credit left at its shard ({} operations): take "
                                     "completions first",
                                     notice.tag, book_config().credit)};
  }
  free_pending_.pop_back();
  for (Region* region : {post.in, post.out, pending.side}) {
    if (region != nullptr) ++region->outstanding;
  }
  if (post.in != nullptr) {
    copied_bytes_ += post.in->copy_in(post.notice.in_offset,
                                      pending.extents.in.count * element_bytes(post.notice.type));
  }
  if ((notice.flags & wire::kHasChecksums) != 0) give_checksums(shape, pending);
  pending_[index] = std::move(pending);
  if (outbound_.empty()) return held_.back().round;
  const std::uint32_t round = outbound_.front().notice.round;
  debug_step(DebugStep::kClientBeforeNotice);
  send(*by_, eager_contribution(pending_[index]));
  debug_step(DebugStep::kClientNoticeSent);
  return round;
}

bool Session::is_outstanding(std::uint32_t tag) const {
  const bool held = std::any_of(held_.begin(), held_.end(),
                                [tag](const Held& one) { return one.notice.tag == tag; });
  return held || now_->book.outstanding(tag) || (old_ && old_->book.outstanding(tag));
}

Status Session::place(const wire::Notice& notice, std::uint32_t index) {
  outbound_.clear();
  if (plans_.holds()) {
    if (is_outstanding(notice.tag)) return Status::kDuplicate;
    if (held_.size() >= book_config().credit) return Status::kNoCredit;
    held_.push_back({notice, index, now_->book.next_round(notice.tag)});
    return Status::kOk;
  }
  by_ = now_.get();
  if ((old_ || !held_.empty()) && is_outstanding(notice.tag)) return Status::kDuplicate;
  if (old_) {
    const auto carrier = plans_.carrier(notice.tag, old_->book.next_round(notice.tag));
    if (carrier == PlanSwitch::By::kOld) by_ = old_.get();
  }
  const Nanos until = monotonic_now() + notice.deadline_ms * kMillisecond + kPatience;
  const Status status = by_->book.post(notice, index, until, outbound_);
  if (status == Status::kOk && old_) plans_.posted(notice.tag, outbound_.front().notice.round);
  return status;
}

// Of the bytes as the caller sees them: whatever befalls them afterwards is noticed.
void Session::give_checksums(const protocol::Shape& shape, const Pending& pending) const {
  const std::byte* data = pending.post.in->data() + pending.post.notice.in_offset;
  std::byte* checksums =
      pending.side->data() + protocol::checksums_offset(shape.count, pending.post.stats);
  const bool streamed = pending.extents.in.count * element_bytes(shape.type) >= kBeyondCaches;
  protocol::for_each_granule(shape, book_config().rank, [&](auto number, auto at, auto bytes) {
    const std::span granule(data + at, bytes);
    const protocol::Checksum checksum = streamed ? crc32c_->streamed(granule) : (*crc32c_)(granule);
    std::memcpy(checksums + number * sizeof checksum, &checksum, sizeof checksum);
  });
}

// All of what this rank gives to an operation of one part, where it is little. Not of a device's
// memory; nor with checksums: what is damaged on its way would have to be sent again, and cannot be
// asked for.
std::span<const std::byte> Session::eager_contribution(const Pending& pending) const {
  const Post& post = pending.post;
  const std::uint64_t bytes = pending.extents.in.count * element_bytes(post.notice.type);
  if (bytes == 0 || outbound_.size() != 1) return {};
  const bool eager = bytes <= by_->nodes.eager_bytes(outbound_.front().lane);
  if (!eager || gives_checksums() || !post.in->host_accessible()) return {};
  return {post.in->data() + post.notice.in_offset, bytes};
}

void Session::send(PlanVersion& by, std::span<const std::byte> contribution) {
  for (const Outbound& outbound : outbound_) {
    if (lost_) break;
    if (!by.nodes.send(outbound.lane, outbound.notice, contribution)) {
      lose(Status::kNodeLost, "the node does not take notices any more");
    }
  }
  outbound_.clear();
}

Outcome Session::cancel(std::uint32_t tag) {
  if (lost_) return *lost_;
  outbound_.clear();
  const auto held = std::find_if(held_.begin(), held_.end(),
                                 [tag](const Held& one) { return one.notice.tag == tag; });
  if (held != held_.end()) {
    end_held(*held, Status::kCancelled);
    held_.erase(held);
    return Unit{};
  }
  PlanVersion& by = old_ && old_->book.outstanding(tag) ? *old_ : *now_;
  if (by.book.cancel(tag, outbound_) != Status::kOk) {
    return Error{Status::kInvalidArgument, fmt::format("tag {} is not outstanding", tag)};
  }
  send(by);
  return Unit{};
}

// No node has heard of it.
void Session::end_held(const Held& held, Status status) {
  wire::Completion verdict;
  verdict.status = status;
  verdict.culprit = status == Status::kCancelled ? book_config().rank : wire::kNoRank;
  ended_.push_back({verdict, held.index, held.notice.tag, held.round, false});
}

bool Session::pump() {
  bool any = pump(*now_);
  if (old_ && !lost_) any |= pump(*old_);
  if (any && !held_.empty() && !plans_.holds()) release();
  return any;
}

bool Session::pump(PlanVersion& version) {
  std::array<RingSlot, kSlots> slots;
  bool any = false;
  for (std::uint32_t lane = 0; lane < version.nodes.lanes() && !lost_; ++lane) {
    const std::size_t count = version.nodes.receive(lane, slots);
    if (count > 0) debug_step(DebugStep::kClientCompletionTaken);
    for (const RingSlot& slot : std::span(slots).first(count)) {
      wire::Completion completion;
      if (wire::parse(slot, completion) != Status::kOk ||
          version.book.complete(lane, completion, outbound_) != Status::kOk) {
        lose(Status::kProtocol, "the node sent a completion that answers nothing");
        return true;
      }
    }
    any |= count > 0;
  }
  if (!outbound_.empty()) send(version);
  return any;
}

void Session::look_around(Nanos now) {
  if (lost_) return;
  next_look_ = now + kLookEvery;
  if (!hear_nodes()) return;
  hear_news(now);
  if (!lost_ && earliest_until() <= now) {
    lose(Status::kNodeLost,
         fmt::format("the node at {} gave no verdict at the operation's deadline",
                     overdue_nodes(now)));
  }
}

std::string Session::overdue_nodes(Nanos now) const {
  std::string nodes;
  for (const PlanVersion* version : {now_.get(), old_.get()}) {
    if (version == nullptr) continue;
    const auto lanes = version->book.overdue_lanes(now);
    if (!lanes.empty()) nodes += (nodes.empty() ? "" : ", ") + version->nodes.nodes_of(lanes);
  }
  return nodes;
}

bool Session::hear_nodes() {
  for (PlanVersion* version : versions()) {
    if (version->nodes.broken()) {
      lose(Status::kProtocol, "the node broke the completion ring");
      return false;
    }
    if (!version->nodes.hear()) continue;
    const std::string why = version->nodes.why_gone();
    if (version == next_.get()) {
      call_off(why);
      continue;
    }
    if (version == old_.get() && !needs_old()) {
      if (!let_go_of_old()) return false;
      continue;
    }
    pump();  // what it said before it went
    lose(Status::kNodeLost, why);
    return false;
  }
  return true;
}

Session::Versions Session::versions() const {
  Versions versions;
  for (const auto* version : {&now_, &old_, &next_}) {
    if (*version) versions.all[versions.count++] = version->get();
  }
  return versions;
}

std::uint32_t Session::outstanding() const {
  const std::uint32_t old = old_ ? old_->book.outstanding() : 0;
  return now_->book.outstanding() + old + static_cast<std::uint32_t>(held_.size());
}

Nanos Session::earliest_until() const {
  const Nanos now = now_->book.earliest_until();
  return old_ ? std::min(now, old_->book.earliest_until()) : now;
}

// The session is over. Every buffer comes back, but not before no shard can store into it.
void Session::lose(Status status, const std::string& why) {
  if (lost_) return;
  lost_ =
      Error{status, fmt::format("session with {}: {}; open a new session", options_.address, why)};
  log(1, lost_->message);
  fence_all();
  for (PlanVersion* version : versions()) {
    version->nodes.hang_up();
    version->book.abandon(status);
  }
  for (const Held& held : std::exchange(held_, {})) end_held(held, status);
  news_.reset();  // fd() has nothing more to say
}

void Session::fence_all() {
  const auto fence = [this] {
    bool fenced = true;
    for (PlanVersion* version : versions()) {
      fenced &= version->nodes.fence(monotonic_now() + kFenceTimeout);
    }
    return fenced;
  };
  if (!fence()) {
    log(1, "the node cannot be fenced off in time: moving the regions out of its reach");
    bool moved = true;
    for (const auto& region : regions_) {
      if (auto done = region->move(); !done) {
        log(1, done.error().message);
        moved = false;
      }
    }
    // Memory that cannot move must not come back while the node may store into it.
    while (!moved && !fence()) continue;
  }
}

void Session::add_stats(const Pending& pending, Completed& completed) const {
  const std::byte* data = pending.side->data();
  for (std::uint64_t i = 0; i < stats_blocks(pending.extents.out.count); ++i) {
    BlockStats block;
    std::memcpy(&block, data + i * sizeof block, sizeof block);
    completed.stats.sum_of_squares += block.sum_of_squares;
    completed.stats.nonfinite += block.nonfinite;
  }
}

void Session::finish(const Finished& finished, const std::vector<std::string>& names,
                     Completed& completed) {
  const auto index = static_cast<std::uint32_t>(finished.user);
  const Pending& pending = pending_[index];
  completed = Completed{};
  completed.status = finished.verdict.status;
  completed.tag = finished.tag;
  completed.round = finished.round;
  completed.user = pending.post.user;
  completed.culprit = finished.verdict.culprit;
  // In place, a result byte that has landed is an input byte that is gone; but the caller's copy of
  // staged memory is never written before success.
  const bool in_place =
      overlap(pending.post, pending.extents) && pending.post.in->how() != Region::How::kStaged;
  if (completed.status == Status::kOk) {
    if (pending.post.out != nullptr) {
      copied_bytes_ += pending.post.out->copy_out(
          pending.post.notice.out_offset,
          pending.extents.out.count * element_bytes(pending.post.notice.type));
    }
    if (pending.post.stats) add_stats(pending, completed);
  } else {
    wire::Completion verdict = finished.verdict;
    verdict.tag = finished.tag;
    verdict.round = finished.round;
    completed.message = describe(verdict, book_config().rank, names);
    completed.inputs_gone = finished.started && in_place;
  }
  for (Region* region : {pending.post.in, pending.post.out, pending.side}) {
    if (region != nullptr) --region->outstanding;
  }
  free_pending_.push_back(index);
}

bool Session::take(Completed& completed) {
  if (!set_aside_.empty()) {
    completed = std::move(set_aside_.front());
    set_aside_.erase(set_aside_.begin());
    return true;
  }
  Finished finished;
  const PlanVersion* by = now_.get();
  if (!ended_.empty()) {
    finished = ended_.front();
    ended_.pop_front();
  } else if (!now_->book.take(finished)) {
    by = old_.get();
    if (by == nullptr || !old_->book.take(finished)) return false;
  }
  finish(finished, by->names, completed);
  return true;
}

bool Session::poll(Completed& completed) {
  if (take(completed)) return true;
  const Nanos now = monotonic_now();
  if (!pump() && now >= next_look_) look_around(now);
  if (news_ && now >= next_look_ + kLookAnyway) look_around(now);
  return take(completed);
}

Outcome Session::wait(Completed& completed, Nanos until) {
  for (;;) {
    if (take(completed)) return Unit{};
    if (outstanding() == 0) {
      if (lost_) return *lost_;
      return Error{Status::kInvalidArgument,
                   "nothing is outstanding: there is nothing to wait for"};
    }
    const Nanos now = monotonic_now();
    if (news_ && now >= next_look_ + kLookAnyway) look_around(now);
    if (pump()) {
      idle_.worked(now);
      continue;
    }
    if (now >= until) return Error{Status::kAgain, "no completion in time"};
    if (now >= next_look_) {
      look_around(now);
      continue;
    }
    idle_.rest(now, [&] { sleep(now, std::min(until, earliest_until())); });
  }
}

Outcome Session::wait_for(std::uint32_t tag, std::uint32_t round, Completed& completed) {
  std::vector<Completed> others;
  Outcome outcome = wait(completed, kForever);
  while (outcome && (completed.tag != tag || completed.round != round)) {
    others.push_back(std::move(completed));
    outcome = wait(completed, kForever);
  }
  set_aside_.insert(set_aside_.begin(), std::make_move_iterator(others.begin()),
                    std::make_move_iterator(others.end()));
  return outcome;
}

bool Session::arm() {
  look_around(monotonic_now());
  const bool finished = now_->book.has_finished() || (old_ && old_->book.has_finished());
  if (!set_aside_.empty() || !ended_.empty() || finished) return false;
  const Nanos until = std::min(earliest_until(), word_until_);
  bool armed = true;
  for (PlanVersion* version : versions()) armed &= version->nodes.arm(until);
  return lost_ || armed;
}

void Session::sleep(Nanos now, Nanos until) {
  const auto all = versions();
  bool armed = true;
  for (PlanVersion* version : all) armed &= version->nodes.arm(kForever);
  if (armed) {
    const Nanos wait = std::clamp<Nanos>(until - now, 0, kSecond);
    const timespec timeout{wait / kSecond, wait % kSecond};
    pollfd source{fd(), POLLIN, 0};
    ::ppoll(&source, 1, &timeout, nullptr);
    debug_step(DebugStep::kClientWoken);
    next_look_ = 0;
  }
  for (PlanVersion* version : all) version->nodes.disarm();
}

}  // namespace tally::client
