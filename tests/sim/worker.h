// A rank: its memory, its OperationBook, and a program that announces the job's operations in an
// order of its own. It keeps a shadow of all its memory and compares both whenever buffers change
// hands, so that no byte is ever written that should not be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/operation_book.h"
#include "tests/sim/arena.h"
#include "tests/sim/schedule.h"
#include "tests/sim/trace.h"
#include "tests/support/reference.h"

namespace tally::sim {

struct Buffer {
  std::span<std::byte> memory;
  std::span<std::byte> shadow;  // what it ought to hold
};

// An operation as this rank announced it.
struct Posted {
  bool posted = false;
  bool finished = false;
  bool cancelled = false;  // taken back by the program
  bool in_place = false;
  protocol::Shape shape;
  wire::Notice notice;
};

// Where a worker's program stands.
enum class Presence : std::uint8_t {
  kHere,
  kLeft,  // in good order
  kLost,  // dead, or cut off
};

// What one worker shares with the rest of its simulation.
struct Surroundings {
  const Schedule& schedule;
  const JobPlan& job;
  std::span<transport::Loopback* const> nodes;  // by shard
  Random& random;
  const Trace& trace;
};

class Worker {
 public:
  Worker(const Surroundings& world, std::uint16_t rank, transport::Peer peer, Arena& arena);

  std::uint16_t rank() const { return rank_; }
  transport::Peer peer() const { return peer_; }
  Presence presence() const { return presence_; }
  const Posted& posted(std::size_t op) const { return posted_[op]; }
  void mark_finished(std::size_t op) { posted_[op].finished = true; }
  // Nothing left to announce or to wait for.
  bool done() const;
  // When it wants to act next though nothing happens; kForever: never.
  Nanos wakes(Nanos now) const;

  // Announces, takes back; true when it did something.
  bool act(Nanos now);
  // Completions from the nodes into the book; true when there were some.
  bool take(Nanos now);
  bool take_finished(client::Finished& finished) { return book_.take(finished); }
  // Is it time to leave in good order?
  bool wants_to_leave() const;

  void leave(Nanos now);
  // Everything outstanding ends with kNodeLost.
  void lose(Nanos now);
  // From this moment nothing of it is written.
  void fence(Nanos now);

  // -- memory ----------------------------------------------------------------------------------
  const std::byte* input(std::size_t op) const;             // as it was announced
  std::span<const std::byte> result(std::size_t op) const;  // as it stands now
  void finish_ok(std::size_t op, const testing::Expected& expected);
  void finish_failed(std::size_t op, bool started);
  // Nothing was written since the buffers came back. Precondition: the tag is not outstanding.
  void check_quiet(std::uint32_t tag) const;
  void check_all_quiet() const;
  void check_fence() const;

  // The book's credit is all there.
  void check_credit();

 private:
  struct TagMemory {
    Buffer in, out, stats;
  };

  std::size_t limit() const;
  bool next_op(std::size_t& op);
  void post(std::size_t op, Nanos now);
  wire::Notice make_notice(std::size_t op) const;
  void place(std::size_t op, wire::Notice& notice) const;
  void prepare_memory(std::size_t op);
  void send(Nanos now);
  Buffer buffer(const wire::Notice& notice, std::uint32_t region) const;
  std::span<std::byte> range_of(std::span<std::byte> memory, const wire::Notice& notice,
                                bool result) const;
  void compare(const Buffer& buffer, std::uint32_t tag, const char* what) const;
  bool tolerant() const;

  Surroundings world_;
  std::uint16_t rank_;
  transport::Peer peer_;
  client::OperationBook book_;
  Presence presence_ = Presence::kHere;
  Nanos asleep_until_ = 0;
  std::vector<Posted> posted_;
  std::size_t count_posted_ = 0;
  std::vector<TagMemory> memory_;  // by tag
  std::vector<std::byte> frozen_;  // all of it, when the fence was set
  std::vector<client::Outbound> outbound_;
  std::vector<std::size_t> candidates_;
};

}  // namespace tally::sim
