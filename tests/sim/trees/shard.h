// A node's shard in a simulation of trees. It runs the real protocol. Instead of an engine and a
// network, it moves a tile's bytes when the world calls done(), in any order.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/protocol/aggregator.h"

namespace tally::sim::trees {

class World;

// A pull or a push in progress.
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
  // Starts the tiles that can start, and sends the outgoing messages.
  void turn();
  // The bytes of the transfer have moved, or its other end is gone.
  void done(const Transfer& transfer, Status status);
  std::uint32_t tiles_in_flight() const { return in_flight_; }

 private:
  struct Record {
    bool used = false;
    bool down = false;
    protocol::Tile tile;
    std::uint32_t pulls_left = 0;
    std::uint32_t pushes_left = 0;
    Status status = Status::kOk;
    protocol::SessionId culprit = protocol::kNoSession;
    std::vector<std::vector<std::byte>> inputs;
    std::vector<std::byte> result;
    std::vector<std::byte> stats;
  };

  std::uint32_t free_handle();
  void begin(Record& record, bool down);
  bool take_steps();
  bool start_tiles();
  void start_down(std::uint32_t handle);
  void sum(std::uint32_t handle);
  void push(std::uint32_t handle);
  void pushed(std::uint32_t handle);
  void end(std::uint32_t handle);
  static void fail(Record& record, Status status, protocol::SessionId culprit);
  void make_stats(Record& record);

  World& world_;
  std::uint32_t node_;
  protocol::Aggregator protocol_;
  std::vector<Record> records_;
  std::uint32_t in_flight_ = 0;
};

}  // namespace tally::sim::trees
