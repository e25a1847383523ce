// An operation over trees, without the limits of real nodes: each vertex sends a tile's partial sum
// on as soon as its own gradient and the sums of its children are there, and the root hands the
// result down at once. Only the number of tiles in flight can be bounded. docs/planning.md compares
// its time with tau.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "control/sim/core/due_times.h"
#include "control/sim/core/flat_tree.h"
#include "control/sim/core/run.h"
#include "control/sim/core/tree_set.h"

namespace tally::simulator {

class TreeRun final : public Run {
 public:
  // `tiles_in_flight`: of all trees together; 0: no bound. bound: the least seconds of the
  // operation, in which tiles have their turns (DueTimes). `set` is used only here; `passages` and
  // `fabric` must outlive this object. Memory: 2 bytes for each machine and tile in flight.
  TreeRun(Fabric& fabric, Passages& passages, const TreeSet& set,
          std::span<const plan::VertexId> workers, const ReadyTimes& ready,
          std::uint32_t tiles_in_flight, double bound);

  void start() override;
  bool done() const override { return ended_ == tiles_.size(); }
  void delivered(const Message& message) override;
  void timer(std::uint32_t worker) override;  // its gradient is ready

 private:
  struct Progress {
    std::uint32_t row = kNone;  // in missing_
    std::uint32_t results = 0;  // edges over which the result has yet to come
  };

  void begin_more();
  void begin(std::uint32_t tile);
  void input(std::uint32_t tile, plan::VertexId machine);
  void hand_down(std::uint32_t tile, plan::VertexId machine);
  void end(std::uint32_t tile);
  // Inputs of the machine that the tile has yet to get.
  std::uint16_t& missing(std::uint32_t tile, plan::VertexId machine) {
    return missing_[progress_[tile].row * machines_ + machine];
  }

  Fabric& fabric_;
  std::vector<Tile> tiles_;
  std::vector<FlatTree> trees_;
  std::vector<DueTimes> due_;              // by tree
  std::vector<std::uint32_t> edges_down_;  // by tree
  std::size_t machines_ = 0;
  std::vector<plan::VertexId> workers_;
  std::vector<bool> is_worker_;  // by machine
  ReadyTimes ready_;
  std::vector<std::uint16_t> missing_;
  std::vector<std::uint32_t> free_rows_;
  std::vector<Progress> progress_;  // by tile
  std::uint32_t begun_ = 0;
  std::uint32_t ended_ = 0;
};

}  // namespace tally::simulator
