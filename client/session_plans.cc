// How a session goes over to another version of its job's plan while it runs: what the coordinator
// says, and what this rank does and answers.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/job_entry.h"
#include "client/session.h"

namespace tally::client {
namespace {

// For sessions and regions of a new version: the coordinator gives up a little later.
constexpr Nanos kPreparing = 20 * kSecond;
// The coordinator gives up after 30 s, and says so. One that is silent for longer is gone.
constexpr Nanos kSilence = 60 * kSecond;
constexpr Nanos kClosing = 10 * kSecond;

}  // namespace

void Session::hear_news(Nanos now) {
  while (news_ && !lost_) {
    auto word = news_->hear();
    if (!word) return lose_coordinator(word.error());
    if (!*word) break;
    take_word(std::move(**word));
  }
  if (lost_) return;
  if (news_ && now >= word_until_) {
    lose_coordinator({Status::kDeadline, "it has been silent for too long"});
  }
  say_if_moved();
}

void Session::take_word(PlanWord word) {
  using Kind = PlanWord::Kind;
  if (word.kind == Kind::kPrepare) return prepare(word);
  if (word.epoch != changing_to_) return;  // it crossed what this rank has said
  switch (word.kind) {
    case Kind::kDecided:
      if (!next_) return;
      word_until_ = monotonic_now() + kSilence;  // it may have been read late
      plans_.know(std::move(word.first));
      static_cast<void>(news_->say(changing_to_, "knows"));
      break;
    case Kind::kGo:
      return go();
    case Kind::kLeave:
      return leave_old();
    default:
      drop_next();
  }
}

// -- until all know --------------------------------------------------------------------------

void Session::prepare(const PlanWord& word) {
  if (next_ || old_) {
    static_cast<void>(news_->say_cannot(word.epoch, "its last change is not at an end"));
    return;
  }
  auto version = make_version(word);
  if (!version) {
    log(1, fmt::format("the job's new plan is not taken: {}", version.error().message));
    // Where its memory could not be had back the session is over, and the coordinator left.
    if (news_) static_cast<void>(news_->say_cannot(word.epoch, version.error().message));
    return;
  }
  next_ = std::move(version).value();
  changing_to_ = word.epoch;
  said_moved_ = false;
  word_until_ = monotonic_now() + kSilence;
  plans_.hold();
  static_cast<void>(news_->say_ready(changing_to_, now_->book.next_rounds()));
}

// With sessions at all its nodes, where the regions have the numbers that they have now.
Result<std::unique_ptr<PlanVersion>> Session::make_version(const PlanWord& word) {
  const Nanos deadline = monotonic_now() + kPreparing;
  auto entry = enter_version(options_, word.version, deadline);
  if (!entry) return entry.error();
  for (const auto& [warning, text] : entry->said) log(warning ? 1 : 0, text);
  auto version = std::make_unique<PlanVersion>(std::move(entry->book), std::move(entry->nodes),
                                               std::move(entry->names));
  Outcome fine = watch(*version);
  for (const auto* regions : {&regions_, &side_regions_}) {
    for (const auto& region : *regions) {
      if (!fine) break;
      const auto added = version->nodes.add_region(*region, deadline, region->id);
      if (!added) fine = added.error();
    }
  }
  if (fine) return version;
  close(std::move(version));
  return fine.error();
}

// It never comes to be: the one that is there goes on.
void Session::drop_next() {
  plans_.call_off();
  word_until_ = kForever;
  changing_to_ = 0;
  if (next_) close(std::move(next_));
  release();
}

// This rank cannot go over. Until the coordinator says so too, its posts wait: it may have decided.
void Session::call_off(const std::string& why) {
  log(1, fmt::format("the job's new plan is not taken: {}", why));
  if (next_) close(std::move(next_));
  if (news_) static_cast<void>(news_->say_cannot(changing_to_, why));
}

void Session::lose_coordinator(const Error& why) {
  const std::string address = news_->address();
  news_.reset();
  if (!plans_.go_on_alone()) {
    return lose(Status::kUnavailable,
                fmt::format("the coordinator at {} went away while the job's plan changed, and "
                            "nobody can say which plan the other ranks go by ({})",
                            address, why.message));
  }
  if (why.status != Status::kUnsupported) {
    log(0, fmt::format("the coordinator at {} is gone: {}; the job runs on", address, why.message));
  }
  word_until_ = kForever;
  if (next_) drop_next();
  release();
}

// -- afterwards ------------------------------------------------------------------------------

void Session::go() {
  if (plans_.stage() != PlanSwitch::Stage::kKnowing) return;
  if (!next_) return lose(Status::kNodeLost, "a node of the job's new plan is gone");
  word_until_ = kForever;
  const auto next_rounds = now_->book.next_rounds();
  plans_.go(next_rounds);
  for (const auto& [tag, round] : next_rounds) {
    next_->book.begin_at(tag, std::max(round, plans_.first(tag)));
  }
  for (const std::uint32_t tag : plans_.behind()) next_->book.begin_at(tag, plans_.first(tag));
  old_ = std::exchange(now_, std::move(next_));
  log(0, fmt::format("the job goes by a new plan, of epoch {}", now_->config.epoch));
  release();
}

// What was posted while nobody knew by which version; in order, as credit allows.
void Session::release() {
  if (plans_.holds() || lost_) return;
  for (const Held& one : std::exchange(held_, {})) {
    if (lost_) {
      end_held(one, lost_->status);
    } else if (place(one.notice, one.index) == Status::kOk) {
      send(*by_, eager_contribution(pending_[one.index]));
    } else {
      held_.push_back(one);
    }
  }
  if (!lost_) return;
  for (const Held& one : std::exchange(held_, {})) end_held(one, lost_->status);
}

void Session::say_if_moved() {
  if (!news_ || !old_ || said_moved_ || needs_old()) return;
  said_moved_ = true;
  static_cast<void>(news_->say(changing_to_, "moved"));
}

bool Session::needs_old() const {
  return !plans_.is_past() || old_->book.outstanding() > 0;
}

void Session::leave_old() {
  if (!said_moved_ || (old_ && !let_go_of_old())) return;
  plans_.finish();
  static_cast<void>(news_->say(changing_to_, "left"));
}

// False: the session is over.
bool Session::let_go_of_old() {
  say_if_moved();
  Finished finished;
  while (old_->book.take(finished)) ended_.push_back(finished);
  return close(std::move(old_));
}

bool Session::close(std::unique_ptr<PlanVersion> version) {
  const auto closed = version->nodes.close(monotonic_now() + kClosing);
  if (!closed && !version->nodes.fence(monotonic_now() + kSecond)) {
    (old_ ? next_ : old_) = std::move(version);
    lose(Status::kNodeLost, closed.error().message);
    return false;
  }
  for (const auto* regions : {&regions_, &side_regions_}) {
    for (const auto& region : *regions) version->nodes.withdraw(*region);
  }
  version->nodes.hang_up();
  return true;
}

}  // namespace tally::client
