// A node's shard in a simulation of trees: the real protocol, and instead of an engine and a
// network something that moves a tile's bytes when the world says so, in any order.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/protocol/aggregator.h"

namespace tally::sim::trees {

class World;

// A pull or a push that is under way.
struct Transfer {
  enum class Kind : std::uint8_t { kPull, kPush, kStats, kBelow };

  std::uint32_t node = 0;
  std::uint32_t handle = 0;
  Kind kind = Kind::kPull;
  std::uint32_t index = 0;
  protocol::Endpoint where;
};

class SimShard {
 public:
  SimShard(World& world, std::uint32_t node, const protocol::AggregatorConfig& config);

  protocol::Aggregator& protocol() { return protocol_; }
  // Starts what can start; sends what is to be sent.
  void turn();
  // The bytes have moved, or nobody is there any more.
  void done(const Transfer& transfer, Status status);
  std::uint32_t tiles_in_flight() const { return in_flight_; }

 private:
  struct Slot {
    bool used = false;
    bool down = false;
    protocol::Tile tile;
    std::uint32_t pulls_left = 0;
    std::uint32_t pushes_left = 0;
    Status status = Status::kOk;
    protocol::Member culprit = protocol::kNoMember;
    std::vector<std::vector<std::byte>> inputs;
    std::vector<std::byte> result;
    std::vector<std::byte> stats;
  };

  std::uint32_t free_handle();
  void begin(Slot& slot, bool down);
  bool take_steps();
  bool start_tiles();
  void start_down(std::uint32_t handle);
  void sum(std::uint32_t handle);
  void push(std::uint32_t handle);
  void pushed(std::uint32_t handle);
  void end(std::uint32_t handle);
  static void fail(Slot& slot, Status status, protocol::Member culprit);
  void make_stats(Slot& slot);

  World& world_;
  std::uint32_t node_;
  protocol::Aggregator protocol_;
  std::vector<Slot> slots_;
  std::uint32_t in_flight_ = 0;
};

}  // namespace tally::sim::trees
