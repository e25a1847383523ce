#include "dataplane/transport/roce/pair/grants.h"

#include <algorithm>
#include <utility>

namespace tally::transport::roce {

Grant::Allows Grant::update(Reads reads, Nanos now) {
  if (state_ == State::kHeld && since_ == 0) since_ = now;
  const bool is_over = lasted(kLong, now);
  if (reads.outstanding && lasted(kTooLong, now)) {
    pause_ = std::clamp(2 * pause_, kLeastPause, kMostPause);
    paused_until_ = now + pause_;
    give_back();
  } else if (state_ == State::kHeld && !reads.outstanding && (is_over || !reads.wanted)) {
    pause_ = 0;
    give_back();
  }
  if (now < paused_until_) return Allows::kLittle;
  if (state_ == State::kNone && reads.wanted && !reads.outstanding) {
    ask();
    since_ = now;
  }
  return state_ == State::kHeld && !lasted(kLong, now) ? Allows::kAll : Allows::kShort;
}

void Grant::give_back() {
  const State before = std::exchange(state_, State::kNone);
  if (before == State::kWaits) std::erase(grants_.waiting_, this);
  if (before != State::kHeld) return;
  if (grants_.waiting_.empty()) {
    --grants_.held_;
    return;
  }
  Grant& next = *grants_.waiting_.front();
  grants_.waiting_.pop_front();
  next.state_ = State::kHeld;
  next.since_ = 0;
  next.on_given();
}

void Grant::ask() {
  const bool is_free = grants_.held_ < Grants::kAtATime;
  state_ = is_free ? State::kHeld : State::kWaits;
  if (is_free) {
    ++grants_.held_;
  } else {
    grants_.waiting_.push_back(this);
  }
}

// Whether it has its grant for so long while others wait.
bool Grant::lasted(Nanos time, Nanos now) const {
  return state_ == State::kHeld && !grants_.waiting_.empty() && now - since_ >= time;
}

}  // namespace tally::transport::roce
