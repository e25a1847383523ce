// Which connections of a shard may have long READs on their way: at most Grants::kAtATime hold a
// grant, and the others wait for one in the order in which they came. A few long requests cost less
// than many short ones, and what their connections need stays in the caches. Short READs need no
// grant.
//
// A connection that does not answer in time loses its grant and does without for some time, with a
// small window instead. So connections that are slow or dead hardly hold up the others. Pure.
//
// Source: Montazeri and others, "Homa: a receiver-driven low-latency transport protocol using
// network priorities", SIGCOMM 2018, section 3.5. It has several grants at a time, because one
// sender may not use its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/clock.h"

namespace tally::transport::roce {

class Grant;

// Those of a shard. One thread.
class Grants {
 public:
  static constexpr std::size_t kAtATime = 4;

 private:
  friend class Grant;
  std::size_t held_ = 0;
  std::deque<Grant*> waiting_;
};

// A connection's. It borrows the shard's.
class Grant {
 public:
  // While others wait, a connection asks for no more after kLong, and has lost its grant when there
  // are still answers to come after kTooLong.
  static constexpr Nanos kLong = 100'000;
  static constexpr Nanos kTooLong = 1'000'000;
  // How long it does without a grant that it has lost; twice as long when it loses the next, too.
  static constexpr Nanos kLeastPause = 10'000'000;
  static constexpr Nanos kMostPause = 160'000'000;

  enum class Allows : std::uint8_t {
    kShort,   // short READs alone
    kLittle,  // READs within a small window
    kAll,     // READs within the connection's share of the shard's window
  };
  struct Reads {
    bool outstanding = false;  // some are on their way
    bool wanted = false;       // a long one is to be sent next
  };

  explicit Grant(Grants& grants) : grants_(grants) {}
  Grant(const Grant&) = delete;
  Grant& operator=(const Grant&) = delete;

  // Asks for a grant or gives it back, as the connection needs. The connection calls it before it
  // sends; while waits(), it need not.
  Allows update(Reads reads, Nanos now);
  // The connection neither has a grant nor waits for one any more.
  void give_back();
  bool waits() const { return state_ == State::kWaits; }

 protected:
  ~Grant() { give_back(); }

 private:
  enum class State : std::uint8_t { kNone, kWaits, kHeld };

  virtual void on_given() = 0;  // it waits no more; to call update() soon
  void ask();
  bool lasted(Nanos time, Nanos now) const;

  Grants& grants_;
  State state_ = State::kNone;
  Nanos since_ = 0;  // it has its grant; 0: since it was last updated
  Nanos pause_ = 0;  // the last one; 0 after a grant that was not lost
  Nanos paused_until_ = 0;
};

}  // namespace tally::transport::roce
