#include "control/sim/runs/tree_run.h"

#include <algorithm>

namespace tally::simulator {
namespace {

constexpr std::uint32_t kUp = 1;  // the lowest bit of Message::who

}  // namespace

TreeRun::TreeRun(Fabric& fabric, Passages& passages, const TreeSet& set,
                 std::span<const plan::VertexId> workers, const ReadyTimes& ready,
                 std::uint32_t tiles_in_flight, double bound)
    : fabric_(fabric),
      tiles_(tiles_of(set)),
      trees_(flat_trees(set, passages)),
      machines_(passages.network().machines()),
      workers_(workers.begin(), workers.end()),
      is_worker_(machines_),
      ready_(ready),
      progress_(tiles_.size()) {
  for (const plan::VertexId worker : workers_) is_worker_[worker] = true;
  for (const FlatTree& tree : trees_) {
    edges_down_.push_back(static_cast<std::uint32_t>(tree.down.order().size()) - 1);
    const double between = bound > 0 ? bound / static_cast<double>(tiles_.size()) : 1;
    due_.emplace_back(tree, passages.network(), static_cast<double>(set.chunk), between);
  }
  const auto all = static_cast<std::uint32_t>(tiles_.size());
  const std::uint32_t rows = tiles_in_flight == 0 ? all : std::min(tiles_in_flight, all);
  missing_.resize(rows * machines_);
  for (std::uint32_t row = rows; row-- > 0;) free_rows_.push_back(row);
}

void TreeRun::start() {
  for (const plan::VertexId worker : workers_) {
    if (ready_[worker] > fabric_.now()) fabric_.at(ready_[worker], worker);
  }
  begin_more();
}

void TreeRun::begin_more() {
  while (begun_ < tiles_.size() && !free_rows_.empty()) begin(begun_++);
}

void TreeRun::begin(std::uint32_t tile) {
  const FlatTree& tree = trees_[tiles_[tile].tree];
  progress_[tile] = {free_rows_.back(), edges_down_[tiles_[tile].tree]};
  free_rows_.pop_back();
  for (const plan::VertexId machine : tree.up.order()) {
    missing(tile, machine) = static_cast<std::uint16_t>(tree.up.children(machine).size() +
                                                        (is_worker_[machine] ? 1 : 0));
  }
  for (const plan::VertexId worker : workers_) {
    if (ready_[worker] <= fabric_.now()) input(tile, worker);
  }
}

void TreeRun::timer(std::uint32_t worker) {
  ready_[worker] = 0;
  for (std::uint32_t tile = 0; tile < begun_; ++tile) input(tile, worker);
  begin_more();
}

void TreeRun::input(std::uint32_t tile, plan::VertexId machine) {
  if (--missing(tile, machine) > 0) return;
  const FlatTree& tree = trees_[tiles_[tile].tree];
  if (machine == tree.up.root()) {
    if (progress_[tile].results == 0) return end(tile);
    return hand_down(tile, machine);
  }
  const std::uint32_t due = tile + due_[tiles_[tile].tree].sum_of(machine);
  fabric_.send(
      {tree.up_way[machine], tiles_[tile].bytes, due, tile, (tree.parent[machine] << 1) | kUp});
}

void TreeRun::hand_down(std::uint32_t tile, plan::VertexId machine) {
  const FlatTree& tree = trees_[tiles_[tile].tree];
  for (const plan::VertexId child : tree.down.children(machine)) {
    const std::uint32_t due = tile + due_[tiles_[tile].tree].result_for(child);
    fabric_.send({tree.down_way[child], tiles_[tile].bytes, due, tile, child << 1});
  }
}

void TreeRun::delivered(const Message& message) {
  const plan::VertexId machine = message.who >> 1;
  if ((message.who & kUp) != 0) return input(message.what, machine);
  hand_down(message.what, machine);
  if (--progress_[message.what].results > 0) return;
  end(message.what);
  begin_more();
}

void TreeRun::end(std::uint32_t tile) {
  ++ended_;
  free_rows_.push_back(progress_[tile].row);
}

}  // namespace tally::simulator
