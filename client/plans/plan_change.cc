#include "client/plans/plan_change.h"

#include <fmt/format.h>

#include <utility>

namespace tally::client {

PlanChange::PlanChange(KnownCoordinator coordinator, Search search)
    : term_(coordinator.term),
      timeouts_(coordinator.timeouts),
      repairs_(coordinator.repairs),
      search_for_next_(std::move(search)),
      current_(coordinator.epoch) {
  if (coordinator.channel) connect(std::move(*coordinator.channel));
  fd_has_changed_ = false;
}

void PlanChange::connect(rpc::RpcChannel channel) {
  auto news = PlanNews::open(std::move(channel), term_, repairs_);
  if (news) news_ = std::move(news).value();
  fd_has_changed_ = true;
}

PlanStep PlanChange::next(Nanos now) {
  if (search_) {
    if (auto step = next_of_search(now)) return std::move(*step);
  }
  while (news_) {
    auto update = news_->poll();
    if (!update) return lose_coordinator(update.error(), now);
    if (!*update) break;
    if (auto step = step_of(std::move(**update), now)) return std::move(*step);
  }
  if (news_ && now >= silent_until()) {
    return lose_coordinator({Status::kDeadline, "it has been silent for too long"}, now);
  }
  return {};
}

// Returns none when the rank has nothing to do.
std::optional<PlanStep> PlanChange::step_of(PlanUpdate update, Nanos now) {
  using Kind = PlanUpdate::Kind;
  using Step = PlanStep::Kind;
  if (interrupted_) silent_until_ = now + timeouts_.coordinator_silence();
  if (update.kind == Kind::kPrepare) {
    // A planned change that was announced before the coordinator knew of the loss.
    if (interrupted_ && !update.repair) return std::nullopt;
    return PlanStep{Step::kPrepare, std::move(update)};
  }
  if (update.kind == Kind::kEnded) {
    if (!interrupted_) return std::nullopt;  // this rank finds out by itself
    const Status status = update.culprit == wire::kNoRank ? Status::kNodeLost : Status::kPeerLost;
    return PlanStep{
        .kind = Step::kEndSession, .why = {status, update.why}, .culprit = update.culprit};
  }
  if (update.kind == Kind::kLeave) {
    const bool leaves = update.epoch == current_ && reported_moved_ && !interrupted_;
    return leaves ? std::optional(PlanStep{Step::kLeave}) : std::nullopt;
  }
  if (update.epoch != epoch_) return std::nullopt;  // sent before a report of this rank arrived
  switch (update.kind) {
    case Kind::kDecided:
      if (!plans_.holds() || why_not_) return std::nullopt;
      silent_until_ = now + timeouts_.coordinator_silence();
      plans_.know(std::move(update.rounds.first));
      failed_ = std::move(update.rounds.failed);
      static_cast<void>(news_->report(epoch_, "knows"));
      return std::nullopt;
    case Kind::kGo:
      if (plans_.stage() != PlanSwitch::Stage::kKnowing) return std::nullopt;
      return go();
    default:
      return drop_next({});
  }
}

PlanStep PlanChange::go() {
  using Step = PlanStep::Kind;
  if (why_not_) {
    const std::string why = fmt::format(
        "this rank did not take the job's new plan, which the other ranks use: {}", *why_not_);
    return PlanStep{.kind = Step::kEndSession, .why = {Status::kNodeLost, why}};
  }
  silent_until_ = kForever;
  current_ = epoch_;
  known_ = 0;
  return PlanStep{interrupted_ ? Step::kRepaired : Step::kGo};
}

PlanStep PlanChange::drop_next(std::string note) {
  if (interrupted_) {
    plans_.interrupt();
  } else {
    plans_.call_off();
    silent_until_ = kForever;
  }
  epoch_ = 0;
  return {.kind = PlanStep::Kind::kDropNext, .note = std::move(note)};
}

// -- when the coordinator is gone ----------------------------------------------------------------

// A change for which all ranks may have decided stays as it is, until the next coordinator says
// which version the job has.
PlanStep PlanChange::lose_coordinator(const Error& why, Nanos now) {
  address_ = news_->address();
  news_.reset();
  fd_has_changed_ = true;
  if (why.status == Status::kUnsupported) return drop_next({});  // it announces no changes
  if (!search_for_next_) return go_on_alone(why);
  return look_for_next(why, now);
}

PlanStep PlanChange::look_for_next(const Error& why, Nanos now) {
  silent_until_ = kForever;
  std::vector<std::uint32_t> epochs = {current_};
  for (const std::uint32_t other : {epoch_, known_}) {
    if (other != 0) epochs.push_back(other);
  }
  search_.emplace(search_for_next_(epochs, term_));
  if (auto over = next_of_search(now)) return std::move(*over);
  if (plans_.stage() == PlanSwitch::Stage::kKnowing) return {};
  return drop_next(
      fmt::format("the coordinator at {} is gone: {}; this rank looks for the next one", address_,
                  why.message));
}

std::optional<PlanStep> PlanChange::next_of_search(Nanos now) {
  auto found = search_->take();
  if (!found) return std::nullopt;
  search_.reset();
  fd_has_changed_ = true;
  if (!*found) return go_on_alone(found->error());
  return resume(std::move(**found), now);
}

// The coordinator has nothing of what this rank has reported to the one before it.
PlanStep PlanChange::resume(ResumedJob found, Nanos now) {
  address_ = found.channel.address();
  term_ = found.term;
  timeouts_ = found.timeouts;
  connect(std::move(found.channel));
  if (!news_) return look_for_next({Status::kNodeLost, "it has ended"}, now);
  const std::string note = fmt::format("the coordinator is now at {}", address_);
  const bool has_changed = found.epoch != current_ && found.epoch == epoch_;
  if (has_changed && plans_.stage() == PlanSwitch::Stage::kKnowing) {
    PlanStep step = go();
    if (step.kind == PlanStep::Kind::kRepaired) moved();  // this rank has no old version
    return step;
  }
  if (interrupted_ && (found.epoch == current_ || found.epoch == known_)) {
    silent_until_ = now + timeouts_.coordinator_silence();
    static_cast<void>(news_->report_loss(found.epoch, loss_));
    return drop_next(note);
  }
  if (found.epoch != current_) {
    return {.kind = PlanStep::Kind::kEndSession,
            .why = {Status::kNodeLost,
                    fmt::format("the coordinator at {} has version {} of the job, and this rank "
                                "version {}: open a new session",
                                address_, found.epoch, current_)}};
  }
  if (plans_.holds()) return drop_next(note);
  const bool has_moved = plans_.stage() == PlanSwitch::Stage::kSteady || reported_moved_;
  reported_moved_ = false;
  if (has_moved) moved();
  return {.kind = PlanStep::Kind::kDropNext, .note = note};
}

PlanStep PlanChange::go_on_alone(const Error& why) {
  if (interrupted_) {
    return {
        .kind = PlanStep::Kind::kEndSession,
        .why = {Status::kNodeLost,
                fmt::format("{}; the coordinator at {} went away before it repaired the job: {}",
                            loss_.why, address_, why.message)}};
  }
  if (!plans_.go_on_alone()) {
    return {.kind = PlanStep::Kind::kEndSession,
            .why = {Status::kUnavailable,
                    fmt::format("the coordinator at {} went away while the job's plan changed, and "
                                "this rank cannot know which plan the other ranks use ({})",
                                address_, why.message)}};
  }
  return drop_next(
      fmt::format("the coordinator at {} is gone: {}; the job runs on", address_, why.message));
}

// -- what the session has done -------------------------------------------------------------------

void PlanChange::prepared(std::uint32_t epoch, const RoundsByTag& rounds, Nanos now) {
  epoch_ = epoch;
  why_not_.reset();
  reported_moved_ = false;
  silent_until_ = now + timeouts_.coordinator_silence();
  plans_.hold();
  if (!news_) return;
  const auto sent = news_->report_ready(epoch, rounds, interrupted_);
  if (!sent) refuse(epoch, sent.error().message);
}

void PlanChange::interrupt(std::uint32_t epoch, const LossReport& loss, Nanos now) {
  interrupted_ = true;
  if (plans_.stage() == PlanSwitch::Stage::kKnowing) known_ = epoch_;
  plans_.interrupt();
  epoch_ = 0;
  why_not_.reset();
  loss_ = loss;
  if (news_) silent_until_ = now + timeouts_.coordinator_silence();
  if (news_) static_cast<void>(news_->report_loss(epoch, loss));
}

RoundDecision PlanChange::repaired() {
  interrupted_ = false;
  epoch_ = 0;
  return {plans_.repaired(), std::exchange(failed_, {})};
}

void PlanChange::refuse(std::uint32_t epoch, const std::string& why) {
  if (news_) static_cast<void>(news_->report_refusal(epoch, why));
}

void PlanChange::call_off(const std::string& why) {
  why_not_ = why;
  refuse(epoch_, why);
}

bool PlanChange::needs_old(const OperationBook& old) const {
  return !plans_.is_past() || old.outstanding() > 0;
}

void PlanChange::moved() {
  if (reported_moved_) return;
  reported_moved_ = true;
  if (news_) static_cast<void>(news_->report(current_, "moved"));
}

void PlanChange::left() {
  plans_.finish();
  if (news_) static_cast<void>(news_->report(current_, "left"));
}

void PlanChange::leave() {
  if (news_) news_->leave();
}

}  // namespace tally::client
