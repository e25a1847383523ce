// The way down of a NodeRun: results, from roots to ranks.
#include <utility>

#include "control/sim/runs/node_run.h"

namespace tally::simulator {

std::uint64_t NodeRun::pushed_bytes(std::uint32_t tile, const NodeVertex& vertex) const {
  return (protocol::receivers_at_once(vertex.rank_inputs()) + vertex.child_nodes.size()) *
         std::uint64_t{tiles_[tile].bytes};
}

// A root keeps the results for its ranks back while the job's pushes fill the window.
void NodeRun::start_pushing(std::uint32_t tile, std::uint32_t number) {
  const NodeVertex& vertex = trees_.vertices[number];
  Node& node = nodes_[vertex.machine];
  Work& here = work(tile, number);
  const std::uint64_t bytes = pushed_bytes(tile, vertex);
  const protocol::TileClass cls = vertex.height - 1;
  if (!node.scheduler.may_push(kJob, cls)) {
    if (!here.kept_back) node.scheduler.keep_back(kJob, cls, bytes);
    here.kept_back = true;
    if (!vertex.ranks.empty()) node.kept_back.emplace_back(tile, number);
    return;
  }
  if (here.kept_back) node.scheduler.let_go(kJob, cls, bytes);
  here.kept_back = false;
  node.scheduler.pushing(kJob, cls, bytes, nanos());
  push_ranks(tile, number);
}

void NodeRun::push_kept_back(plan::VertexId machine) {
  std::deque<std::pair<std::uint32_t, std::uint32_t>> tiles;
  tiles.swap(nodes_[machine].kept_back);
  for (const auto& [tile, vertex] : tiles) start_pushing(tile, vertex);
}

// Begins with as many ranks as get the result at once. push_rank() goes on with one at a time.
void NodeRun::push_ranks(std::uint32_t tile, std::uint32_t number) {
  const std::uint32_t at_once = protocol::receivers_at_once(trees_.vertices[number].rank_inputs());
  for (std::uint32_t i = 0; i < at_once; ++i) push_rank(tile, number);
}

void NodeRun::push_rank(std::uint32_t tile, std::uint32_t number) {
  const NodeVertex& vertex = trees_.vertices[number];
  Work& here = work(tile, number);
  if (here.rank_next == vertex.ranks.size()) return;
  const plan::VertexId rank = vertex.ranks[here.rank_next++];
  send(trees_.trees[vertex.tree].down_way[rank], tile, number, Payload::kToRank);
}

// The result goes to all child nodes of the vertex, each when it has a free down buffer.
void NodeRun::hand_down(std::uint32_t tile, std::uint32_t number) {
  const NodeVertex& vertex = trees_.vertices[number];
  Work& here = work(tile, number);
  here.rank_next = 0;
  here.pushes = static_cast<std::uint32_t>(vertex.ranks.size() + vertex.child_nodes.size());
  for (std::uint32_t i = 0; i < vertex.child_nodes.size(); ++i) {
    DownPool& pool = pools_[vertex.down_buffers[i]];
    pool.waiting.emplace_back(tile, vertex.child_nodes[i]);
    grant(pool);
  }
}

void NodeRun::grant(DownPool& pool) {
  if (pool.free == 0 || pool.waiting.empty()) return;
  const auto [tile, number] = pool.waiting.front();
  pool.waiting.pop_front();
  --pool.free;
  const NodeVertex& vertex = trees_.vertices[number];
  send(trees_.trees[vertex.tree].down_way[vertex.machine], tile, number, Payload::kToNode);
}

void NodeRun::result_came(std::uint32_t tile, std::uint32_t vertex) {
  hand_down(tile, vertex);
  push_ranks(tile, vertex);
}

// The transport reports that a rank has the bytes, or that a child node has (then it has an index).
void NodeRun::answered(const Note& note) {
  const bool from_rank = note.index == kNone;
  if (from_rank) push_rank(note.tile, note.vertex);
  if (from_rank || trees_.vertices[note.vertex].is_root()) pushed(note.tile, note.vertex);
}

// A rank has the result, or a child node does: at the root as soon as it has come, else when it is
// everywhere below.
void NodeRun::pushed(std::uint32_t tile, std::uint32_t number) {
  if (--work(tile, number).pushes > 0) return;
  const NodeVertex& vertex = trees_.vertices[number];
  if (vertex.is_root()) return end_root(tile, number);
  send_note(way_to_parent(vertex), {Kind::kPlaced, tile, vertex.parent, vertex.index});
}

void NodeRun::placed(const Note& note) {
  const NodeVertex& vertex = trees_.vertices[note.vertex];
  DownPool& pool = pools_[vertex.down_buffers[note.index]];
  ++pool.free;
  grant(pool);
  if (!vertex.is_root()) return pushed(note.tile, note.vertex);
  if (--tiles_[note.tile].placing == 0 && work(note.tile, note.vertex).pushes == 0) {
    conclude(note.tile);
  }
}

void NodeRun::end_root(std::uint32_t tile, std::uint32_t number) {
  const NodeVertex& vertex = trees_.vertices[number];
  protocol::TileScheduler& scheduler = nodes_[vertex.machine].scheduler;
  const protocol::TileClass cls = vertex.height - 1;
  const std::uint64_t bytes = pushed_bytes(tile, vertex);
  if (work(tile, number).kept_back) {
    scheduler.let_go(kJob, cls, bytes);
  } else {
    scheduler.pushed(kJob, cls, bytes, nanos());
  }
  scheduler.finished(kJob, cls);
  pacer_.ended(kJob, vertex.tree);
  wake_for_release();
  if (tiles_[tile].placing == 0) conclude(tile);
  push_kept_back(vertex.machine);
  start_tiles(vertex.machine);
}

void NodeRun::conclude(std::uint32_t tile) {
  bytes_left_ -= tiles_[tile].bytes;
  free_work_[tiles_[tile].tree].push_back(tiles_[tile].first);
}

}  // namespace tally::simulator
