// What the thread of a group does.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/idle.h"
#include "gpu_bridge/group/executor.h"
#include "gpu_bridge/stream/progress_thread.h"

namespace tally::gpu {
namespace {

constexpr Nanos kLookForErrorsEvery = 50 * kMillisecond;
// After the loss of the group, an operation waits so long for its device and for Tally.
constexpr Nanos kGrace = 5 * kSecond;

using State = GroupWork::State;

}  // namespace

void GroupWork::fail(std::uint32_t rank, Stage stage, const Error& error) {
  if (verdict.status != Status::kOk) return;
  verdict = {error.status, stage, rank};
  message = error.message;
}

bool Executor::take_one(GroupCompletion& completion) {
  if (ended_.empty()) return false;
  completion = std::move(ended_.front().completion);
  chunks_ -= ended_.front().chunks;
  ended_.pop_front();
  return true;
}

bool Executor::poll(GroupCompletion& completion) {
  const Lock lock(mutex_);
  return take_one(completion);
}

Outcome Executor::wait(GroupCompletion& completion, int timeout_ms) {
  Lock lock(mutex_);
  const Nanos until = timeout_ms < 0 ? kForever : monotonic_now() + timeout_ms * kMillisecond;
  while (!take_one(completion)) {
    if (outstanding() == 0) {
      if (lost_.has_value()) return *lost_;
      return invalid("nothing is outstanding: there is nothing to wait for; call all_reduce first");
    }
    const Nanos now = monotonic_now();
    if (now >= until) {
      return Error{Status::kAgain, fmt::format("no completion in time: {} operations are "
                                               "outstanding",
                                               outstanding())};
    }
    completion_.wait_for(lock, std::chrono::nanoseconds(std::min(until - now, kSecond)));
  }
  return Unit{};
}

void Executor::wake() {
  if (sleeping_) make_readable(wake_.get());
}

void Executor::run() {
  const cuda::CurrentContext current(*member_.driver, member_.context);
  cuda::allow_calls_during_captures(*member_.driver);
  IdlePolicy idle;
  for (;;) {
    const Nanos now = monotonic_now();
    bool worked = false;
    {
      const Lock lock(mutex_);
      if (ending_) return;
      worked = step();
      if (worked) progressed_ = now;
    }
    if (worked) {
      idle.worked(now);
    } else {
      idle.rest(now, [&] { rest(now); });
    }
  }
}

bool Executor::step() {
  bool worked = take_completions();
  worked |= take_verdicts();
  for (GroupWork& work : works_) worked |= follow(work);
  const Nanos now = monotonic_now();
  if (now >= next_look_) {
    look_for_failures(now);
    next_look_ = now + kLookForErrorsEvery;
  }
  return worked;
}

bool Executor::take_completions() {
  bool any = false;
  tally_completion completion{};
  completion.size = sizeof completion;
  for (tally_session* const session : member_.columns) {
    int taken = 0;
    while ((taken = tally_poll(session, &completion, 1)) > 0) {
      take(completion);
      any = true;
    }
  }
  return any;
}

void Executor::take(const tally_completion& completion) {
  const std::uint32_t tag = completion.tag / Division::kMostChunks;
  for (GroupWork& work : works_) {
    if (work.state != State::kRunning || work.operation.tag != tag) continue;
    ++work.completed;
    if (completion.status == TALLY_OK) return;
    work.fail(
        own_rank(), Stage::kSum,
        {static_cast<Status>(completion.status),
         fmt::format("chunk {}: {}", completion.tag % Division::kMostChunks, completion.message)});
    return;
  }
}

bool Executor::take_verdicts() {
  bool any = false;
  Agreement::Agreed agreed;
  while (agreement_->poll(agreed)) {
    any = true;
    GroupWork& work = works_[agreed.index];
    if (work.state != State::kAgreeing) continue;
    if (agreed.verdict.stage == Stage::kVerdict) {
      // A rank that has lost the group announces no verdicts.
      lose(Stage::kVerdict, {agreed.verdict.status, agreed.message}, agreed.verdict.rank);
      finish(work, work.verdict, work.message);
      continue;
    }
    const bool own = agreed.verdict.code() == work.verdict.code();
    finish(work, agreed.verdict, own ? work.message : "");
  }
  if (!agreement_->ended().empty()) {
    const bool had = lost_.has_value();
    lose(Stage::kVerdict, {Status::kPeerLost, agreement_->ended()}, agreement_->culprit());
    any |= !had;
  }
  return any;
}

bool Executor::has_given_up() const {
  return lost_.has_value() && monotonic_now() - lost_at_ > kGrace;
}

// Whether this rank's part has ended.
bool Executor::has_ended(GroupWork& work) {
  const bool gave_up = has_given_up();
  if (work.completed < work.posted) return gave_up;
  if (!work.has_end) return true;
  const auto code = member_.driver->event_query(work.marks.end.get());
  if (code == cuda::Code::kSuccess) return true;
  if (code == cuda::Code::kNotReady) return gave_up;
  lose(Stage::kDevice, cuda::failure(*member_.driver, "the device", code), own_rank());
  return true;
}

bool Executor::follow(GroupWork& work) {
  // A node that has stopped gives no verdict.
  if (work.state == State::kAgreeing && has_given_up()) {
    finish(work, work.verdict, work.message);
    return true;
  }
  if (work.state != State::kRunning) return false;
  if (!work.begun && member_.driver->event_query(work.marks.begin.get()) != cuda::Code::kNotReady) {
    work.begun = true;
    progressed_ = monotonic_now();
  }
  if (!has_ended(work)) return false;
  if (lost_.has_value()) {
    finish(work, work.verdict, work.message);
    return true;
  }
  const auto index = static_cast<std::uint32_t>(&work - works_.data());
  const auto announced = agreement_->announce(index, work.operation.tag, work.verdict);
  if (announced) {
    work.state = State::kAgreeing;
    return true;
  }
  work.fail(own_rank(), Stage::kVerdict, announced.error());
  lose(Stage::kVerdict, announced.error(), own_rank());
  finish(work, work.verdict, work.message);
  return true;
}

void Executor::finish(GroupWork& work, const Verdict& verdict, std::string message) {
  GroupCompletion completion;
  completion.status = verdict.status;
  completion.tag = work.operation.tag;
  completion.user = work.operation.user;
  if (verdict.status != Status::kOk) {
    completion.stage = verdict.stage;
    completion.culprit = verdict.rank;
    const std::string where =
        verdict.rank == TALLY_NO_RANK ? "" : fmt::format(" at rank {}", verdict.rank);
    completion.message =
        fmt::format("tag {}: stage {}{}: {}{}{}", work.operation.tag, stage_name(verdict.stage),
                    where, status_name(verdict.status), message.empty() ? "" : ": ", message);
  }
  ended_.push_back({std::move(completion), work.chunks.size});
  work.state = State::kFree;
  completion_.notify_all();
}

void Executor::look_for_failures(Nanos now) {
  if (lost_.has_value()) return;
  const auto code = member_.driver->event_query(works_.front().marks.begin.get());
  if (code != cuda::Code::kSuccess && code != cuda::Code::kNotReady) {
    return lose(Stage::kDevice, cuda::failure(*member_.driver, "the device", code), own_rank());
  }
  if (auto fine = collectives_.asynchronous_error(); !fine) {
    return lose(Stage::kReduce, fine.error(), own_rank());
  }
  const auto begun = std::find_if(works_.begin(), works_.end(), [](const GroupWork& work) {
    return work.state == State::kRunning && work.begun;
  });
  const Nanos limit = 2 * options_.deadline_ms * kMillisecond;
  if (begun == works_.end() || now - progressed_ < limit) return;
  // Tally's stage has deadlines of its own.
  lose(Stage::kReduce,
       {Status::kDeadline,
        fmt::format("the operation of tag {} has made no progress for {} ms, twice "
                    "GroupOptions::deadline_ms: another GPU of the group has not reached it; call "
                    "all_reduce() at all ranks in the same order, or set a longer deadline",
                    begun->operation.tag, limit / kMillisecond)},
       own_rank());
}

void Executor::lose(Stage stage, const Error& error, std::uint32_t culprit) {
  if (lost_.has_value()) return;
  lost_ = error;
  lost_at_ = monotonic_now();
  agreement_->end();
  for (GroupWork& work : works_) {
    if (work.state == State::kFree) continue;
    work.fail(culprit, stage, error);
    const std::uint32_t tag = work.operation.tag;
    if (work.state == State::kAgreeing) {
      agreement_->withdraw(tag);
      continue;
    }
    for (tally_session* const session : member_.columns) {
      for (std::uint32_t chunk = 0; chunk < work.chunks.size; ++chunk) {
        tally_cancel(session, tag * Division::kMostChunks + chunk);
      }
    }
  }
  // After the cancels, because the streams of NCCL wait for the results of Tally.
  collectives_.abort();
}

// -- sleep ---------------------------------------------------------------------------------------

Nanos Executor::longest_sleep(Nanos now) const {
  bool any = false;
  for (const GroupWork& work : works_) {
    if (work.state != State::kRunning) continue;
    any = true;
    if (work.completed < work.posted) continue;
    return sleep_after(now - progressed_);
  }
  return any ? 20 * kMillisecond : kSecond;
}

// False: there are completions already.
bool Executor::arm(tally_session* session, Stage stage) {
  const auto status = tally_arm(session);
  if (status == TALLY_AGAIN) return false;
  // The session is over.
  if (status != TALLY_OK && !lost_.has_value()) {
    lose(stage, {static_cast<Status>(status), tally_last_error(session)}, own_rank());
  }
  return true;
}

void Executor::rest(Nanos now) {
  std::vector<pollfd>& events = events_;
  Nanos longest = 0;
  {
    const Lock lock(mutex_);
    if (ending_) return;
    if (!arm(member_.all, Stage::kVerdict)) return;
    for (tally_session* const session : member_.columns) {
      if (!arm(session, Stage::kSum)) return;
    }
    if (events.empty()) {
      events.push_back({wake_.get(), POLLIN, 0});
      events.push_back({tally_fd(member_.all), POLLIN, 0});
      for (tally_session* const session : member_.columns) {
        events.push_back({tally_fd(session), POLLIN, 0});
      }
    }
    longest = longest_sleep(now);
    sleeping_ = true;
  }
  sleep_until_event(events, longest);
  const Lock lock(mutex_);
  sleeping_ = false;
  if (events[0].revents != 0) make_unreadable(wake_.get());
}

}  // namespace tally::gpu
