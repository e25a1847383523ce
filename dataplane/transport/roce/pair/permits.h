// Which connections of a shard may have long READs on their way: a semaphore of four permits, which
// connections get in the order in which they ask. A few long requests cost less than many short
// ones, and what four connections need stays in the caches. Short READs need no permit.
//
// A connection that does not answer in time loses its permit. It gets no other one for some time,
// but may read within a small window. So slow and dead connections hardly hold up the others. Pure.
//
// Source: Montazeri and others, "Homa: a receiver-driven low-latency transport protocol using
// network priorities", SIGCOMM 2018, section 3.5. There, too, a receiver lets a few senders send at
// a time, because one of them may not do so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace tally::transport::roce {

class Permit;

// All permits of a shard. One thread.
class Permits {
 public:
  static constexpr std::size_t kAtATime = 4;
  // A permit is lost after four times what permits usually last, within these bounds. (A megabyte
  // takes 0.84 ms at 10 Gbit/s.)
  static constexpr Nanos kLeastLimit = 1'000'000;
  static constexpr Nanos kMostLimit = 10'000'000;

  // The time of the next calls. Precondition: what arrived before has been taken, so that nobody
  // loses a permit for a pause of this thread.
  void set_now(Nanos now) { now_ = now; }

 private:
  friend class Permit;
  Nanos limit() const;

  Nanos now_ = 0;
  Nanos waited_since_ = 0;  // when the queue was last empty
  Nanos usual_ = 0;         // how long a permit is held while others wait: a moving average
  std::size_t connections_ = 0;
  std::size_t held_ = 0;
  std::vector<Permit*> waiting_;  // has room for all connections
};

// The permit of one connection, or its place in the queue. Borrows the Permits.
class Permit {
 public:
  // While others wait, a connection starts no more long READs after so long.
  static constexpr Nanos kLong = 100'000;
  // After a loss. The next time doubles if the connection then loses its next permit.
  static constexpr Nanos kLeastPause = 10'000'000;
  static constexpr Nanos kMostPause = 160'000'000;

  enum class Allows : std::uint8_t {
    kShort,   // short READs
    kLittle,  // all READs, within a small window
    kAll,     // all READs
  };
  struct LongReads {
    bool outstanding = false;  // some have begun and are not complete
    bool waiting = false;      // some have not begun
  };

  explicit Permit(Permits& permits);
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;

  // Asks for a permit or gives it back, as the connection needs. To be called before the connection
  // sends, and while it has a permit. Does not throw.
  Allows update(LongReads reads);
  bool waits() const { return state_ == State::kWaits; }

 protected:
  ~Permit();

 private:
  enum class State : std::uint8_t { kNone, kWaits, kHeld };

  virtual void on_given() = 0;  // update() must be called soon; must not throw
  void ask();
  void give_back();
  void lose();
  Nanos others_have_waited() const;

  Permits& permits_;
  State state_ = State::kNone;
  Nanos since_ = 0;  // it holds a permit
  Nanos pause_ = 0;  // the last one; 0 after a permit that was not lost
  Nanos paused_until_ = 0;
};

}  // namespace tally::transport::roce
