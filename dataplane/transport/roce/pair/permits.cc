#include "dataplane/transport/roce/pair/permits.h"

#include <algorithm>
#include <utility>

namespace tally::transport::roce {

Nanos Permits::limit() const {
  return std::clamp(4 * usual_, kLeastLimit, kMostLimit);
}

Permit::Permit(Permits& permits) : permits_(permits) {
  permits_.waiting_.reserve(++permits_.connections_);
}

Permit::~Permit() {
  give_back();
  std::erase(permits_.waiting_, this);
  --permits_.connections_;
}

Permit::Allows Permit::update(LongReads reads) {
  if (state_ == State::kHeld) {
    const Nanos waited = others_have_waited();
    if (reads.outstanding && waited >= permits_.limit()) {
      lose();
    } else if (!reads.outstanding && (!reads.waiting || waited >= kLong)) {
      pause_ = 0;
      give_back();
    }
  }
  if (permits_.now_ < paused_until_) return Allows::kLittle;
  if (state_ == State::kNone && reads.waiting && !reads.outstanding) ask();
  return state_ == State::kHeld && others_have_waited() < kLong ? Allows::kAll : Allows::kShort;
}

void Permit::ask() {
  if (permits_.held_ < Permits::kAtATime) {
    ++permits_.held_;
    state_ = State::kHeld;
    since_ = permits_.now_;
    return;
  }
  if (permits_.waiting_.empty()) permits_.waited_since_ = permits_.now_;
  permits_.waiting_.push_back(this);
  state_ = State::kWaits;
}

void Permit::lose() {
  pause_ = std::clamp(2 * pause_, kLeastPause, kMostPause);
  paused_until_ = permits_.now_ + pause_;
  give_back();
}

void Permit::give_back() {
  if (state_ != State::kHeld) return;
  const Nanos waited = others_have_waited();
  state_ = State::kNone;
  if (permits_.waiting_.empty()) {
    --permits_.held_;
    return;
  }
  permits_.usual_ += (waited - permits_.usual_) / 8;
  Permit& next = *permits_.waiting_.front();
  permits_.waiting_.erase(permits_.waiting_.begin());
  next.state_ = State::kHeld;
  next.since_ = permits_.now_;
  next.on_given();
}

// For this permit.
Nanos Permit::others_have_waited() const {
  if (permits_.waiting_.empty()) return 0;
  return permits_.now_ - std::max(since_, permits_.waited_since_);
}

}  // namespace tally::transport::roce
