// A rank: its memory, its OperationBook, and a program that announces the job's operations in an
// order of its own. The rank keeps a shadow copy of all its memory. It compares both whenever
// ownership of a buffer changes, so that it finds every unexpected write.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/operations/operation_book.h"
#include "tests/sim/arena.h"
#include "tests/sim/schedule.h"
#include "tests/sim/trace.h"
#include "tests/support/reference.h"

namespace tally::sim {

struct Buffer {
  std::span<std::byte> memory;
  std::span<std::byte> shadow;  // the expected content
};

// An operation as this rank announced it.
struct Posted {
  bool posted = false;
  bool finished = false;
  bool cancelled = false;  // cancelled by the program
  bool in_place = false;
  protocol::Shape shape;
  wire::Notice notice;
};

// The state of a worker's program.
enum class Presence : std::uint8_t {
  kHere,
  kLeft,  // in good order
  kLost,  // dead, or cut off
};

// The objects that one worker shares with the rest of its simulation.
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
  // True when the worker has nothing left to announce or to wait for.
  bool done() const;
  // When the worker acts next without an external event; kForever when it does not.
  Nanos wakes(Nanos now) const;

  // Announces and cancels operations. Returns true when it did something.
  bool act(Nanos now);
  // Moves completions from the nodes into the book. Returns true when there were some.
  bool take(Nanos now);
  bool take_finished(client::Finished& finished) { return book_.take(finished); }
  // True when the worker should leave in good order now.
  bool wants_to_leave() const;

  void leave(Nanos now);
  // Ends every outstanding operation with kNodeLost.
  void lose(Nanos now);
  // Sets the fence: no node writes into its memory from now on.
  void fence(Nanos now);

  // -- memory ----------------------------------------------------------------------------------
  const std::byte* input(std::size_t op) const;             // as it was announced
  std::span<const std::byte> result(std::size_t op) const;  // as it is now
  void finish_ok(std::size_t op, const testing::Expected& expected);
  void finish_failed(std::size_t op, bool started);
  // Checks that nothing was written since the buffers returned to the worker. Precondition: the tag
  // is not outstanding.
  void check_quiet(std::uint32_t tag) const;
  void check_all_quiet() const;
  void check_fence() const;

  // Checks that all of the book's credit is back.
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
  std::vector<std::byte> frozen_;  // a copy of all memory, from when the fence was set
  std::vector<client::Outbound> outbound_;
  std::vector<std::size_t> candidates_;
};

}  // namespace tally::sim
