// How long a requester waits for an answer. When none comes, it first sends its last packet once
// more, as a probe: when the last packets of what is sent are lost, nothing later tells either end
// of the loss, but the answer to the probe does. It does so much earlier than the timeout for
// acknowledgements, after which the requester sends everything again. Pure.
//
// A probe is due after some round trips, which the clock measures; the next one after twice the
// time. The longer time stays until a round trip is measured, because the probe may have been too
// early. Timeouts become longer too, up to 8 times, because the other end may be slow.
//
// Sources: the time of a round trip, RFC 6298, sections 2 and 5, without what was sent more than
// once (Karn's algorithm, section 3); tail loss probes, RFC 8985, section 7.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "dataplane/transport/roce/wire/psn.h"

namespace tally::transport::roce {

class AnswerClock {
 public:
  static constexpr Nanos kLeastWait = 2'000'000;
  enum class Due : std::uint8_t { kNothing, kProbe, kTimeout };

  // Probes are due after an eighth of the timeout at the earliest: the other end's processor may
  // pause, and who sets the timeout knows for how long.
  explicit AnswerClock(Nanos ack_timeout)
      : ack_timeout_(ack_timeout), least_(std::max(ack_timeout / 8, kLeastWait)), wait_(least_) {}

  // From this time on, something waits for an answer.
  void start(Nanos now) { last_ = now; }
  // A packet that asks for an answer has left for the first time; `end` comes after its PSN.
  void sent(Psn end, Nanos now) {
    if (measures_) return;
    measures_ = true;
    end_ = end;
    sent_at_ = now;
  }
  // Something is sent again. Its answer may be that to the first time.
  void sent_again() { measures_ = false; }
  // Answers up to this PSN, exclusive, have come.
  void answered(Psn end, Nanos now) {
    last_ = now;
    timeouts_ = 0;
    if (!measures_ || end.after(end_) < 0) return;
    measures_ = false;
    measured(now - sent_at_);
  }

  // What is due, each once. The caller asks at timer() at the latest.
  Due due(Nanos now) {
    if (now - last_ >= patience()) {
      last_ = now;
      ++timeouts_;
      return Due::kTimeout;
    }
    if (now - last_ < wait_) return Due::kNothing;
    wait_ *= 2;
    return Due::kProbe;
  }
  Nanos timer() const { return last_ + std::min(patience(), wait_); }
  std::uint32_t timeouts() const { return timeouts_; }  // since the last answer

 private:
  Nanos patience() const { return ack_timeout_ << std::min(timeouts_, 3U); }
  void measured(Nanos round_trip) {
    if (mean_ == 0) {
      mean_ = round_trip;
      deviation_ = round_trip / 2;
    } else {
      const Nanos off = mean_ > round_trip ? mean_ - round_trip : round_trip - mean_;
      deviation_ += (off - deviation_) / 4;
      mean_ += (round_trip - mean_) / 8;
    }
    wait_ = std::max(mean_ + 4 * deviation_, least_);
  }

  Nanos ack_timeout_;
  Nanos least_;
  Nanos wait_;
  Nanos last_ = 0;  // answer or timeout
  std::uint32_t timeouts_ = 0;
  // -- round trips
  Nanos mean_ = 0;
  Nanos deviation_ = 0;
  bool measures_ = false;
  Psn end_{};
  Nanos sent_at_ = 0;
};

}  // namespace tally::transport::roce
