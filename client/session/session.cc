#include "client/session/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/debug_steps.h"
#include "client/session/verdict_text.h"
#include "net/address.h"

namespace tally::client {
namespace {

constexpr Nanos kLookEvery = 1 * kMillisecond;
constexpr Nanos kLookAnyway = 20 * kMillisecond;  // also while busy, for the coordinator
constexpr Nanos kClosing = 30 * kSecond;          // of a session: the node releases many GB
constexpr Nanos kShutdown = 5 * kSecond;          // for outstanding operations when a session ends
// For the sessions and regions of a new version. The coordinator gives up a little later.
constexpr Nanos kPreparing = 20 * kSecond;
constexpr Nanos kClosingVersion = 10 * kSecond;
constexpr std::size_t kEntries = 32;

}  // namespace

// -- begin and end -------------------------------------------------------------------------------

Result<std::unique_ptr<Session>> Session::open(SessionOptions options) {
  if (!options.checksums) {
    const auto enabled = net::default_checksums();
    if (!enabled) return enabled.error();
    options.checksums = *enabled;
  }
  const auto shared = SharedByConnections::make();
  auto entry = enter_job(options, shared);
  if (!entry) return entry.error();
  const auto lines = std::move(entry->log_lines);
  std::unique_ptr<Session> session(
      new Session(std::move(options), shared, std::move(entry).value()));
  if (auto watched = session->watch_.begin(session->versions_.now()); !watched) {
    return watched.error();
  }
  for (const auto& [warning, text] : lines) session->log(warning ? 1 : 0, text);
  return session;
}

Session::Session(SessionOptions options, SharedByConnections shared, JobEntry entry)
    : options_(std::move(options)),
      shared_(std::move(shared)),
      versions_(version_of(entry)),
      change_(std::move(entry.coordinator), entry.term),
      watch_(versions_.now(), change_.fd()),
      posts_(options_.rank),
      operations_(options_.rank, options_.ranks, entry.crc32c) {
  if (options_.deadline_ms == 0) options_.deadline_ms = entry.deadline_ms;
}

Session::~Session() {
  debug_step(DebugStep::kClientBeforeClose);
  if (!loss_.lost()) shut_down();
  if (held_back() && !loss_.try_again(versions_, regions_))
    log(1, "the session is closed although a node may still write to its memory: " +
               held_back()->message);
}

// Cancels everything outstanding, so that the memory is the caller's again.
void Session::shut_down() {
  for (const std::uint32_t tag : operations_.tags()) {
    if (posts_.waits(tag) || versions_.outstanding(tag)) static_cast<void>(cancel(tag));
  }
  const Nanos until = monotonic_now() + kShutdown;
  Completed ignored;
  while (!loss_.lost() && outstanding() > 0) {
    if (wait(ignored, until).status() == Status::kAgain) {
      lose(Status::kNodeLost, fmt::format("{} does not answer", nodes().titles()));
    }
  }
  // The node releases the memory before it answers. Without an answer it may not have released it.
  for (PlanVersion* version : versions_.all()) {
    if (loss_.lost()) break;
    const auto closed = version->nodes.close(monotonic_now() + kClosing);
    if (!closed) lose(Status::kNodeLost, closed.error().message);
  }
  change_.leave();
}

void Session::lose(Status status, const std::string& why) {
  if (loss_.lost()) return;
  loss_.begin(status, why, options_);
  posts_.end_waiting(status);
  loss_.end_access(versions_, regions_, monotonic_now() + options_.fence_timeout, options_);
  versions_.hang_up();
  change_.end();  // fd() has nothing more to report
}

const char* Session::transport() {
  return transports_.emplace(nodes().transport()).first->c_str();
}

// -- regions -------------------------------------------------------------------------------------

Outcome Session::room_for(std::uint64_t bytes) {
  if (loss_.lost()) return *loss_.lost();
  return SessionRegions::room_for(versions_, bytes);
}

Result<Region*> Session::add_region(std::unique_ptr<Region> region) {
  if (loss_.lost()) return *loss_.lost();
  const auto added = regions_.add(versions_, std::move(region));
  if (!added) return added.error();
  return accept(*added);
}

Region* Session::accept(const SessionRegions::Added& added) {
  if (added.refused_by_next) call_off(added.refused_by_next->message);
  return added.region;
}

Outcome Session::remove_region(Region* region) {
  if (held_back() && region->outstanding > 0 && !loss_.try_again(versions_, regions_)) {
    return *held_back();
  }
  if (region->outstanding > 0) {
    return Error{Status::kAgain,
                 fmt::format("{} operations on the region are outstanding", region->outstanding)};
  }
  return regions_.remove(versions_, *region, loss_.lost().has_value());
}

// -- operations ----------------------------------------------------------------------------------

Result<std::uint32_t> Session::post(const Post& post) {
  if (loss_.lost()) return *loss_.lost();
  auto prepared = operations_.prepare(post, options_.deadline_ms);
  if (!prepared) return prepared.error();
  if (prepared->needs_side()) {
    const auto side = regions_.side_region(versions_, prepared->side_bytes);
    if (!side) return side.error();
    prepared->use_side(*accept(*side));
    // accept() calls the change of the plan off when the next version refuses the region, and that
    // ends the session when a node does not let go of its memory.
    if (loss_.lost()) return *loss_.lost();
  }
  const PlacedPost placed = operations_.begin(*prepared, [&](std::uint32_t number) {
    return posts_.place(versions_.books(change_.plans()), prepared->notice, number, monotonic_now(),
                        outbound_);
  });
  if (placed.status != Status::kOk) {
    return refusal(placed.status, prepared->notice.tag, book_config().credit);
  }
  if (placed.by == PlanSwitch::By::kNone) return placed.round;
  debug_step(DebugStep::kClientBeforeNotice);
  send(placed);
  debug_step(DebugStep::kClientNoticeSent);
  return placed.round;
}

void Session::send(const PlacedPost& placed) {
  PlanVersion& by = placed.by == PlanSwitch::By::kOld ? *versions_.old() : versions_.now();
  auto bytes = operations_.contribution(static_cast<std::uint32_t>(placed.user));
  if (!bytes.empty()) {
    const Connection& first = by.nodes.connections().of_shard(outbound_.front().shard);
    if (outbound_.size() != 1 || bytes.size() > first.eager_bytes()) bytes = {};
  }
  send(by, bytes);
}

void Session::send(PlanVersion& by, std::span<const std::byte> contribution) {
  for (const Outbound& outbound : outbound_) {
    if (loss_.lost()) break;
    if (!by.nodes.send(outbound.shard, outbound.notice, contribution)) {
      lose(Status::kNodeLost,
           fmt::format("{} does not take notices any more", by.nodes.titles_of({outbound.shard})));
    }
  }
  outbound_.clear();
}

// Places the posts that waited for the decision about their version, in order, as credit allows.
void Session::place_waiting() {
  std::size_t at = 0;
  while (!loss_.lost()) {
    const auto placed =
        posts_.place_waiting(versions_.books(change_.plans()), at, monotonic_now(), outbound_);
    if (!placed) return;
    send(*placed);
  }
}

Outcome Session::cancel(std::uint32_t tag) {
  if (loss_.lost()) return *loss_.lost();
  if (posts_.cancel(tag)) return Unit{};
  PlanVersion* const old = versions_.old();
  PlanVersion& by = old != nullptr && old->book.outstanding(tag) ? *old : versions_.now();
  if (by.book.cancel(tag, outbound_) != Status::kOk) {
    return Error{Status::kInvalidArgument,
                 fmt::format("tag {} is not outstanding: it was not posted, or its "
                             "completion has been taken",
                             tag)};
  }
  send(by);
  return Unit{};
}

bool Session::pump() {
  std::array<RingEntry, kEntries> entries;
  bool any = false;
  for (PlanVersion* version : {&versions_.now(), versions_.old()}) {
    if (version == nullptr) continue;
    for (std::uint32_t shard = 0; shard < version->nodes.shards() && !loss_.lost(); ++shard) {
      const std::size_t count = version->nodes.connections().receive(shard, entries);
      if (count > 0) debug_step(DebugStep::kClientCompletionTaken);
      for (const RingEntry& entry : std::span(entries).first(count)) {
        wire::Completion completion;
        if (wire::parse(entry, completion) != Status::kOk ||
            version->book.complete(shard, completion, outbound_) != Status::kOk) {
          lose(Status::kProtocol, fmt::format("{} sent a completion for no outstanding operation",
                                              version->nodes.titles_of({shard})));
          outbound_.clear();
          return true;
        }
      }
      any |= count > 0;
    }
    if (!outbound_.empty()) send(*version);
  }
  if (any && posts_.waiting() > 0) place_waiting();
  return any;
}

bool Session::take(Completed& completed) {
  if (!set_aside_.empty()) {
    completed = std::move(set_aside_.front());
    set_aside_.erase(set_aside_.begin());
    return true;
  }
  Finished finished;
  PlanVersion* by = &versions_.now();
  if (!posts_.take(finished) && !by->book.take(finished)) {
    by = versions_.old();
    if (by == nullptr || !by->book.take(finished)) return false;
  }
  operations_.end(finished, completed);
  if (completed.status == Status::kOk) return true;
  if (const std::string* why = loss_.reason_of(completed.status)) {
    completed.message = fmt::format("tag {} round {}: {}", finished.tag, finished.round, *why);
    return true;
  }
  wire::Completion verdict = finished.verdict;
  verdict.tag = finished.tag;
  verdict.round = finished.round;
  completed.message = verdict_text(verdict, book_config().rank, by->names);
  return true;
}

// -- waiting -------------------------------------------------------------------------------------

bool Session::poll(Completed& completed) {
  if (take(completed)) return true;
  const Nanos now = monotonic_now();
  if (held_back()) return loss_.try_again(versions_, regions_) && take(completed);
  if (!pump() && now >= next_look_) look_around(now);
  if (change_.has_coordinator() && now >= next_look_ + kLookAnyway) look_around(now);
  return take(completed);
}

Outcome Session::wait(Completed& completed, Nanos until) {
  for (;;) {
    if (take(completed)) return Unit{};
    if (held_back()) {
      if (!loss_.try_again(versions_, regions_)) return *held_back();
      continue;
    }
    const std::uint32_t waited_for = outstanding();
    if (waited_for == 0) {
      if (loss_.lost()) return *loss_.lost();
      return Error{Status::kInvalidArgument,
                   "nothing is outstanding: there is nothing to wait for; post first"};
    }
    const Nanos now = monotonic_now();
    if (change_.has_coordinator() && now >= next_look_ + kLookAnyway) {
      look_around(now);
      continue;  // the session may be lost: its operations have ended
    }
    if (pump()) {
      idle_.worked(now);
      continue;
    }
    if (now >= until) {
      return Error{Status::kAgain, fmt::format("no completion in time: {} operations are "
                                               "outstanding",
                                               waited_for)};
    }
    if (now >= next_look_) {
      look_around(now);
      continue;
    }
    idle_.rest(now, [&] {
      const Nanos end = std::min({until, versions_.earliest_until(now), change_.silent_until()});
      if (watch_.sleep(versions_, now, end)) next_look_ = 0;
    });
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
  if (held_back() && !loss_.try_again(versions_, regions_)) return false;
  if (!set_aside_.empty() || posts_.has_ended() || versions_.has_finished()) return false;
  const Nanos until = std::min(versions_.earliest_until(monotonic_now()), change_.silent_until());
  return versions_.arm(until) || loss_.lost();
}

// The cost does not depend on the number of operations and of silent nodes.
void Session::look_around(Nanos now) {
  if (loss_.lost()) return;
  next_look_ = now + kLookEvery;
  if (!poll_nodes()) return;
  poll_coordinator();
  if (!loss_.lost() && versions_.earliest_until(now) <= now) {
    lose(Status::kNodeLost, fmt::format("{} gave no verdict at the operation's deadline",
                                        versions_.overdue_nodes(now)));
  }
}

bool Session::poll_nodes() {
  watch_.mark_events(versions_);
  for (PlanVersion* version : versions_.all()) {
    if (version->nodes.connections().broken()) {
      lose(Status::kProtocol,
           fmt::format("{} broke the completion ring", version->nodes.titles_of_broken()));
      return false;
    }
    if (!version->nodes.connections().read_events()) continue;
    const std::string why = version->nodes.why_gone();
    if (version == versions_.next()) {
      call_off(why);
    } else if (version == versions_.old() && !change_.needs_old(version->book)) {
      if (!leave_old()) return false;
    } else {
      pump();  // takes what the node sent before it went
      lose(Status::kNodeLost, why);
      return false;
    }
  }
  return !loss_.lost();
}

// -- the plan changes ----------------------------------------------------------------------------

void Session::poll_coordinator() {
  using StepKind = PlanStep::Kind;
  while (!loss_.lost()) {
    const PlanStep step = change_.next(monotonic_now());
    switch (step.kind) {
      case StepKind::kNone: {
        const PlanVersion* old = versions_.old();
        if (old != nullptr && !change_.needs_old(old->book)) change_.moved();
        return;
      }
      case StepKind::kPrepare:
        prepare(step.update);
        break;
      case StepKind::kGo:
        versions_.go_over(change_.plans());
        log(0, fmt::format("the job uses a new plan, of epoch {}", book_config().epoch));
        place_waiting();
        break;
      case StepKind::kLeave:
        if (versions_.old() == nullptr || leave_old()) change_.left();
        break;
      case StepKind::kDropNext:
        if (!step.note.empty()) log(0, step.note);
        if (versions_.next() != nullptr) close(*versions_.next());
        place_waiting();
        break;
      case StepKind::kEndSession:
        lose(step.why.status, step.why.message);
        break;
    }
  }
}

// Opens sessions with the nodes of the new version, and keeps the numbers of the regions there.
void Session::prepare(const PlanUpdate& update) {
  if (versions_.next() != nullptr || versions_.old() != nullptr) {
    return change_.refuse(update.epoch, "its last change of the plan has not ended");
  }
  const auto refuse = [&](const Error& why) {
    log(1, fmt::format("the job's new plan is not taken: {}", why.message));
    // After a failed fence the session is lost and its channel closed: then this does nothing.
    change_.refuse(update.epoch, why.message);
  };
  const Nanos deadline = monotonic_now() + kPreparing;
  auto entry = enter_version(options_, shared_, update.version, deadline);
  if (!entry) return refuse(entry.error());
  for (const auto& [warning, text] : entry->log_lines) log(warning ? 1 : 0, text);
  // Only a version that is complete becomes the next one: an allocation that fails on the way ends
  // this change of the plan, and not the changes after it.
  auto next = version_of(*entry);
  Outcome fine = watch_.add(*next);
  if (fine) fine = regions_.add_all_to(next->nodes, deadline);
  const auto next_rounds = versions_.now().book.next_rounds();
  PlanVersion& added = versions_.add_next(std::move(next));
  if (!fine) {
    close(added);
    return refuse(fine.error());
  }
  change_.prepared(update.epoch, next_rounds, monotonic_now());
}

void Session::call_off(const std::string& why) {
  log(1, fmt::format("the job's new plan is not taken: {}", why));
  close(*versions_.next());
  change_.call_off(why);
}

bool Session::leave_old() {
  change_.moved();
  posts_.take_over(versions_.old()->book);
  return close(*versions_.old());
}

bool Session::close(PlanVersion& version) {
  const auto closed = version.nodes.close(monotonic_now() + kClosingVersion);
  if (!closed && !version.nodes.connections().fence(monotonic_now() + kSecond)) {
    lose(Status::kNodeLost, closed.error().message);
    return false;
  }
  regions_.withdraw_all_from(version.nodes);
  version.nodes.connections().hang_up();
  versions_.remove(version);
  return true;
}

}  // namespace tally::client
