#include "client/session/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/debug_steps.h"
#include "client/operations/verdict_text.h"
#include "client/session/resume_job.h"

namespace tally::client {
namespace {

constexpr Nanos kLookEvery = 1 * kMillisecond;
constexpr Nanos kLookAnyway = 20 * kMillisecond;  // also while busy, for the coordinator
constexpr Nanos kClosing = 30 * kSecond;          // of a session: the node releases many GB
constexpr Nanos kShutdown = 5 * kSecond;          // for outstanding operations when a session ends
constexpr std::size_t kEntries = 32;

}  // namespace

// -- begin and end -------------------------------------------------------------------------------

Result<std::unique_ptr<Session>> Session::open(SessionOptions options) {
  if (auto taken = take_defaults(options); !taken) return taken.error();
  const auto shared = SharedByConnections::make();
  auto entry = enter_job(options, shared);
  if (!entry) return entry.error();
  const auto lines = std::move(entry->log_lines);
  std::unique_ptr<Session> session(
      new Session(std::move(options), shared, std::move(entry).value()));
  if (auto watched = session->watch_.begin(session->versions_.now()); !watched)
    return watched.error();
  for (const auto& [warning, text] : lines) session->log(warning ? 1 : 0, text);
  return session;
}

Session::Session(SessionOptions options, SharedByConnections shared, JobEntry entry)
    : options_(std::move(options)),
      shared_(std::move(shared)),
      versions_(version_of(entry)),
      change_(std::move(entry.coordinator), search_from(options_, versions_)),
      watch_(versions_.now(), change_.fd()),
      posts_(options_.rank),
      operations_(options_.rank, options_.ranks, entry.crc32c),
      version_changes_({options_, shared_, versions_, change_, watch_, regions_, posts_}),
      repair_({versions_, change_, regions_, posts_, operations_}, options_.finishes(),
              options_.quorum > 0) {
  if (options_.finishes()) {
    operations_.keep_inputs_in_place();
  } else if (change_.repairs()) {
    operations_.keep_inputs();
  }
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
  Completed ignored;
  const Nanos until = monotonic_now() + kShutdown;
  while (!loss_.lost() && !repair_.is_needed() && outstanding() > 0) {
    if (wait(ignored, until).status() == Status::kAgain) {
      lose(Status::kNodeLost, fmt::format("{} does not answer", nodes().titles()));
    }
  }
  if (!loss_.lost() && repair_.is_needed()) {
    change_.leave();
    return lose(Status::kCancelled, "the session is closed before its job is repaired");
  }
  // The node releases the memory before it answers. Without an answer it may not have released it.
  for (PlanVersion* version : versions_.all()) {
    if (loss_.lost()) break;
    const auto closed = version->nodes.close(monotonic_now() + kClosing);
    if (!closed) lose(Status::kNodeLost, closed.error().message);
  }
  change_.leave();
}

void Session::lose(Status status, const std::string& why, std::uint16_t culprit) {
  if (loss_.lost()) return;
  loss_.begin(status, why, options_);
  posts_.end_waiting(status, culprit);
  loss_.end_access(versions_, regions_, monotonic_now() + options_.fence_timeout, options_);
  versions_.hang_up();
  change_.end();  // fd() has nothing more to report
}

void Session::lose_node(const std::string& why) {
  if (!repair_.note(why)) return lose(Status::kNodeLost, why);
  next_look_ = 0;
}

// -- regions -------------------------------------------------------------------------------------

Result<Region*> Session::add_region(std::unique_ptr<Region> region) {
  if (auto may = await_repair(); !may) return may.error();
  const auto added = regions_.add(versions_, std::move(region));
  if (!added) return added.error();
  return accept(*added);
}

Region* Session::accept(const SessionRegions::Added& added) {
  if (added.refused_by_next) must_end(version_changes_.call_off(added.refused_by_next->message));
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
  static_cast<void>(await_repair());
  return regions_.remove(versions_, *region, loss_.lost().has_value());
}

// -- operations ----------------------------------------------------------------------------------

Result<std::uint32_t> Session::post(const Post& post) {
  if (loss_.lost()) return *loss_.lost();
  auto prepared = operations_.prepare(post, options_.deadline_ms);
  if (!prepared) return prepared.error();
  if (prepared->needs_side()) {
    if (auto may = await_repair(); !may) return may.error();
    const auto side = regions_.side_region(versions_, prepared->side_bytes);
    if (!side) return side.error();
    prepared->use_side(*accept(*side));
    // accept() ends the session when a node of the next version keeps its memory.
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
    if (loss_.lost() || repair_.noted() != nullptr) break;
    if (!by.nodes.send(outbound.shard, outbound.notice, contribution)) {
      lose_node(
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
    if (placed->by != PlanSwitch::By::kNone) send(*placed);
    if (placed->cancelled && versions_.now().book.cancel(placed->tag, outbound_) == Status::kOk) {
      send(versions_.now());
    }
  }
}

Outcome Session::cancel(std::uint32_t tag) {
  if (loss_.lost()) return *loss_.lost();
  if (posts_.cancel(tag)) return Unit{};
  PlanVersion* const old = versions_.old();
  PlanVersion& by = old != nullptr && old->book.outstanding(tag) ? *old : versions_.now();
  if (posts_.does_again(tag) || by.book.cancel(tag, outbound_) != Status::kOk) {
    return Error{Status::kInvalidArgument,
                 fmt::format("tag {} is not outstanding: it was not posted, or its "
                             "completion has been taken",
                             tag)};
  }
  send(by);
  return Unit{};
}

bool Session::pump() {
  if (repair_.is_interrupted()) return false;
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
            complete(*version, shard, completion) != Status::kOk) {
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

Status Session::complete(PlanVersion& version, std::uint32_t shard,
                         const wire::Completion& completion) {
  const auto known = repair_.take_loss(version, completion);
  if (!known) return version.book.complete(shard, completion, outbound_);
  next_look_ = 0;
  return *known;
}

bool Session::take(Completed& completed) {
  if (!set_aside_.empty()) {
    completed = std::move(set_aside_.front());
    set_aside_.erase(set_aside_.begin());
    return true;
  }
  Finished finished;
  PlanVersion* by = nullptr;
  for (bool again = true; again;) {
    by = &versions_.now();
    if (!posts_.take(finished) && !by->book.take(finished)) {
      by = versions_.old();
      if (by == nullptr || !by->book.take(finished)) return false;
    }
    again = !operations_.end(finished, completed);
    if (!again) continue;
    posts_.done_again(finished.tag);
    place_waiting();
  }
  if (completed.status == Status::kOk) return true;
  const std::string* why = loss_.reason_of(completed.status);
  completed.message = why != nullptr
                          ? fmt::format("tag {} round {}: {}", finished.tag, finished.round, *why)
                          : verdict_text(finished, book_config().rank, by->names);
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
  if (repair_.noted() != nullptr) return false;
  const Nanos until = std::min(versions_.earliest_until(monotonic_now()), change_.silent_until());
  watch_.set_alarm(repair_.is_interrupted() ? until : kForever);
  return versions_.arm(until) || loss_.lost();
}

// The cost does not depend on the number of operations and of silent nodes.
void Session::look_around(Nanos now) {
  if (loss_.lost()) return;
  next_look_ = now + kLookEvery;
  if (!poll_nodes()) return;
  if (!repair_.is_interrupted() && versions_.earliest_until(now) <= now) {
    lose_node(fmt::format("{} gave no verdict at the operation's deadline",
                          versions_.overdue_nodes(now)));
  }
  if (repair_.noted() != nullptr) interrupt();
  poll_coordinator();
  if (repair_.noted() != nullptr) next_look_ = 0;
}

bool Session::poll_nodes() {
  watch_.mark_events(versions_);
  for (PlanVersion* version : versions_.all()) {
    if (version->is_lost) continue;
    if (version->nodes.connections().broken()) {
      lose(Status::kProtocol,
           fmt::format("{} broke the completion ring", version->nodes.titles_of_broken()));
      return false;
    }
    if (!version->nodes.connections().read_events()) continue;
    const std::string why = version->nodes.why_gone();
    if (version == versions_.next()) {
      // The other ranks may go over already. Then this rank goes over too, and is repaired.
      if (change_.repairs() && change_.plans().stage() == PlanSwitch::Stage::kKnowing) {
        version->nodes.connections().hang_up();
        continue;
      }
      if (must_end(version_changes_.call_off(why))) return false;
    } else if (version == versions_.old() && !change_.needs_old(version->book)) {
      if (must_end(version_changes_.leave_old())) return false;
    } else {
      pump();  // takes what the node sent before it went
      lose_node(why);
      return !loss_.lost();
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
      case StepKind::kNone:
        return static_cast<void>(must_end(version_changes_.after_steps()));
      case StepKind::kPrepare:
        prepare(step.update);
        break;
      case StepKind::kGo:
        version_changes_.go_over();
        place_waiting();
        break;
      case StepKind::kRepaired:
        if (!must_end(repair_.go_over(options_))) place_waiting();
        break;
      case StepKind::kLeave:
        must_end(version_changes_.leave());
        break;
      case StepKind::kDropNext:
        if (!must_end(version_changes_.drop_next(step.note))) place_waiting();
        break;
      case StepKind::kEndSession:
        lose(step.why.status, step.why.message, step.culprit);
        break;
    }
  }
}

void Session::prepare(const PlanUpdate& update) {
  if (update.repair && !repair_.is_interrupted()) {
    if (!repair_.note("the coordinator repairs it")) {
      return change_.refuse(update.epoch, "this session cannot be repaired");
    }
    interrupt();
    if (loss_.lost()) return;
  }
  must_end(version_changes_.prepare(
      update, repair_.is_interrupted() ? repair_.rounds() : versions_.now().book.rounds()));
}

// -- repairs -------------------------------------------------------------------------------------

void Session::interrupt() {
  const std::string why = *repair_.noted();
  if (!repair_.interrupt(why, options_)) lose(Status::kNodeLost, why);
}

Outcome Session::await_repair() {
  while (!loss_.lost() && repair_.is_needed()) {
    const Nanos now = monotonic_now();
    if (now >= next_look_) {
      look_around(now);
    } else if (watch_.sleep(versions_, now, change_.silent_until())) {
      next_look_ = 0;
    }
  }
  return loss_.lost() ? Outcome(*loss_.lost()) : Unit{};
}

}  // namespace tally::client
