#include "control/sim/runs/node_run.h"

#include <algorithm>

namespace tally::simulator {
namespace {

using protocol::Group;

constexpr std::uint64_t kPage = 4 << 10;   // inputs land in whole pages
constexpr std::uint32_t kNoteBytes = 100;  // with the headers of packets

}  // namespace

NodeRun::NodeRun(Fabric& fabric, Passages& passages, const TreeSet& set,
                 std::span<const plan::VertexId> workers, const ReadyTimes& ready,
                 const NodeOptions& options, double rate)
    : fabric_(fabric),
      passages_(passages),
      config_(options.node),
      trees_(node_trees(set, passages, workers)),
      left_(set.bytes),
      home_(set.home),
      wanted_(trees_.vertices.size()),
      pools_(trees_.pools),
      free_work_(set.trees.size()) {
  const std::size_t machines = passages.network().machines();
  config_.max_height = trees_.max_height;
  if (options.pace > 0) add_roots(set.shares(), options.pace * rate);
  if (trees_.most_inputs > 0) pieces_ = pieces_of(set);
  for (DownPool& pool : pools_) pool.free = pieces_.count;
  for (std::size_t i = 0; i < machines; ++i) {
    nodes_.push_back({protocol::TileScheduler(protocol::tile_limits(config_)), {}});
    nodes_.back().scheduler.add_job(kJob, {});
    announced_at_ = std::max(announced_at_, ready[i]);
  }
  for (const NodeVertex& vertex : trees_.vertices) {
    nodes_[vertex.machine].scheduler.reserve(
        kJob, vertex.height - 1, 1, vertex.child_nodes.empty() ? UINT32_MAX : pieces_.count);
  }
  for (const NodeVertex& vertex : trees_.vertices) {
    const FlatTree& tree = trees_.trees[vertex.tree];
    for (const plan::VertexId rank : vertex.ranks) {
      ways_back_[tree.down_way[rank]] = passages.flow(tree.up_way[rank]);
    }
  }
  for (std::size_t tree = 0; tree < set.trees.size(); ++tree) {
    if (trees_.roots[tree] != kNone) bytes_left_ += set.bytes[tree];
  }
}

void NodeRun::add_roots(const std::vector<double>& shares, double rate) {
  paces_.resize(shares.size());
  for (std::uint32_t tree = 0; tree < shares.size(); ++tree) {
    if (trees_.roots[tree] == kNone) continue;
    paces_[tree] = static_cast<std::uint64_t>(shares[tree] * rate);
    pacer_.add({kJob, tree, tree, trees_.vertices[trees_.roots[tree]].height, paces_[tree], 1});
  }
}

// As buffers_of() in control/coordinator/layout/layout.cc has it.
plan::Pieces NodeRun::pieces_of(const TreeSet& set) const {
  const plan::Pieces wanted{set.chunk, set.window};
  return plan::served_pieces(paces_.empty() ? wanted : plan::paced_pieces(wanted),
                             trees_.most_inputs);
}

// The news of the last rank goes up the highest tree.
void NodeRun::start() {
  announced_at_ =
      std::max(announced_at_, fabric_.now()) + trees_.max_height * fabric_.hop_seconds();
  notes_.push_back({Kind::kAnnounced, 0, 0, 0});
  fabric_.at(announced_at_, 0);
}

void NodeRun::announce() {
  announced_ = true;
  for (std::uint32_t tree = 0; tree < trees_.roots.size(); ++tree) {
    const std::uint32_t root = trees_.roots[tree];
    if (root == kNone || left_[tree] == 0) continue;
    const NodeVertex& vertex = trees_.vertices[root];
    nodes_[vertex.machine].scheduler.add(kJob, vertex.height - 1, root, 0, age_of(tree));
  }
  for (plan::VertexId machine = 0; machine < nodes_.size(); ++machine) start_tiles(machine);
}

void NodeRun::send_note(std::uint32_t way, const Note& note) {
  fabric_.send({way, kNoteBytes, note.tile, number_of(note),
                note.vertex * kPayloads + static_cast<std::uint32_t>(Payload::kNote), false});
}

std::uint32_t NodeRun::way_to_child(const NodeVertex& vertex, std::uint32_t index) const {
  const plan::VertexId child = trees_.vertices[vertex.child_nodes[index]].machine;
  return trees_.trees[vertex.tree].down_way[child];
}

std::uint32_t NodeRun::way_to_parent(const NodeVertex& vertex) const {
  return passages_.flow(trees_.trees[vertex.tree].up_way[vertex.machine]);
}

std::uint32_t NodeRun::number_of(const Note& note) {
  if (free_notes_.empty()) {
    free_notes_.push_back(static_cast<std::uint32_t>(notes_.size()));
    notes_.emplace_back();
  }
  const std::uint32_t number = free_notes_.back();
  free_notes_.pop_back();
  notes_[number] = note;
  return number;
}

void NodeRun::timer(std::uint32_t number) {
  const Note note = notes_[number];
  free_notes_.push_back(number);
  switch (note.kind) {
    case Kind::kAnnounced:
      return announce();
    case Kind::kRelease:
      return release();
    case Kind::kWanted:
      return wanted(note);
    case Kind::kReady:
      return ready(note);
    case Kind::kPullRank:
    case Kind::kPullPartial:
      return pull(note);
    case Kind::kPlaced:
      return placed(note);
    case Kind::kPushed:
      return answered(note);
  }
}

void NodeRun::delivered(const Message& message) {
  const std::uint32_t vertex = message.who / kPayloads;
  const std::uint32_t tile = message.what;
  switch (static_cast<Payload>(message.who % kPayloads)) {
    case Payload::kInput:
      return input_came(tile, vertex);
    case Payload::kNote:
      return timer(message.what);
    case Payload::kToRank:
      return send_note(ways_back_.at(message.way), {Kind::kPushed, tile, vertex, kNone});
    case Payload::kToNode:
      break;
  }
  const NodeVertex& child = trees_.vertices[vertex];
  send_note(way_to_parent(child), {Kind::kPushed, tile, child.parent, child.index});
  result_came(tile, vertex);
}

void NodeRun::send(std::uint32_t way, std::uint32_t tile, std::uint32_t vertex, Payload payload) {
  fabric_.send({way, tiles_[tile].bytes, tile, tile,
                vertex * kPayloads + static_cast<std::uint32_t>(payload)});
}

// -- the begin of a tile

// Parts get ready in their order, so their number is their age.
std::uint64_t NodeRun::age_of(std::uint32_t tree) const {
  const std::size_t trees = trees_.roots.size();
  return (tree + trees - home_) % trees;
}

void NodeRun::start_tiles(plan::VertexId machine) {
  pacer_.reach(nanos());
  while (const auto choice = nodes_[machine].scheduler.next()) {
    const NodeVertex& vertex = trees_.vertices[choice->operation];
    if (!vertex.is_root() || pacer_.is_due(kJob, vertex.tree)) {
      start_tile(choice->operation);
      continue;
    }
    nodes_[machine].scheduler.remove(kJob, vertex.height - 1, choice->operation);
    pacer_.hold(kJob, vertex.tree, {0, age_of(vertex.tree), choice->operation});
    wake_for_release();
  }
}

void NodeRun::wake_for_release() {
  const Nanos next = pacer_.next_release();
  if (next >= wakes_at_) return;
  wakes_at_ = next;
  fabric_.at(static_cast<double>(next) / kSecond, number_of({Kind::kRelease, 0, 0, 0}));
}

void NodeRun::release() {
  if (nanos() < wakes_at_) return;  // another timer has replaced this one
  wakes_at_ = kForever;
  pacer_.reach(nanos());
  std::vector<protocol::TileScheduler::Ready> due;
  pacer_.release([&](auto, auto, const auto& ready) { due.push_back(ready); });
  for (const auto& [priority, age, root] : due) {
    const NodeVertex& vertex = trees_.vertices[root];
    nodes_[vertex.machine].scheduler.add(kJob, vertex.height - 1, root, priority, age);
    start_tiles(vertex.machine);
  }
  wake_for_release();
}

void NodeRun::start_tile(std::uint32_t number) {
  const NodeVertex& vertex = trees_.vertices[number];
  protocol::TileScheduler& scheduler = nodes_[vertex.machine].scheduler;
  std::uint32_t tile = 0;
  bool last = false;
  if (vertex.is_root()) {
    tile = cut(vertex);
    pacer_.started(kJob, vertex.tree, tiles_[tile].bytes);
    last = left_[vertex.tree] == 0;
  } else {
    tile = wanted_[number].front();
    wanted_[number].pop_front();
    last = wanted_[number].empty();
  }
  if (last) scheduler.remove(kJob, vertex.height - 1, number);
  scheduler.started(kJob, vertex.height - 1);
  for (std::uint32_t i = 0; i < vertex.child_nodes.size(); ++i) {
    send_note(way_to_child(vertex, i), {Kind::kWanted, tile, vertex.child_nodes[i], 0});
  }
  work(tile, number) = Work{};
  pull_group(tile, number, 0);
}

// As tile_elements() in dataplane/protocol/tiles/cutting.cc has it.
std::uint64_t NodeRun::tile_size(const NodeVertex& root) const {
  const std::uint64_t pace = paces_.empty() ? 0 : paces_[root.tree];
  std::uint64_t elements =
      protocol::tile_bytes(config_, pace, root.height, root.inputs()) / kElementBytes;
  if (!root.child_nodes.empty()) elements = std::min(elements, pieces_.bytes / kElementBytes);
  constexpr std::uint64_t kCut = protocol::kCutElements;
  return std::max(elements / kCut * kCut, kCut) * kElementBytes;
}

std::uint32_t NodeRun::cut(const NodeVertex& root) {
  const std::uint64_t bytes = std::min(tile_size(root), left_[root.tree]);
  left_[root.tree] -= bytes;
  std::vector<std::uint32_t>& free = free_work_[root.tree];
  if (free.empty()) {
    free.push_back(static_cast<std::uint32_t>(work_.size()));
    work_.resize(work_.size() + trees_.vertices_of[root.tree]);
  }
  tiles_.push_back({root.tree, static_cast<std::uint32_t>(bytes), free.back(), 0});
  free.pop_back();
  return static_cast<std::uint32_t>(tiles_.size() - 1);
}

void NodeRun::wanted(const Note& note) {
  const NodeVertex& vertex = trees_.vertices[note.vertex];
  std::deque<std::uint32_t>& wanted = wanted_[note.vertex];
  wanted.push_back(note.tile);
  if (wanted.size() == 1) {
    nodes_[vertex.machine].scheduler.add(kJob, vertex.height - 1, note.vertex, 0,
                                         age_of(vertex.tree));
  }
  start_tiles(vertex.machine);
}

// -- the way up

std::uint64_t NodeRun::landing_bytes(std::uint32_t tile, const NodeVertex& vertex,
                                     const Group& group) const {
  const std::uint64_t bytes = tiles_[tile].bytes;
  const std::uint64_t inputs = group.end - group.begin;
  return group.end > vertex.rank_inputs() ? inputs * ((bytes + kPage - 1) / kPage * kPage)
                                          : inputs * bytes;
}

void NodeRun::pull_group(std::uint32_t tile, std::uint32_t number, std::uint32_t begin) {
  const NodeVertex& vertex = trees_.vertices[number];
  const std::uint32_t ranks = vertex.rank_inputs();
  const Group group =
      protocol::group_from(begin, ranks, static_cast<std::uint32_t>(vertex.child_nodes.size()));
  Work& here = work(tile, number);
  here.group = group;
  here.pending = group.end - group.begin;
  nodes_[vertex.machine].scheduler.pulling(kJob, vertex.height - 1,
                                           landing_bytes(tile, vertex, group));
  std::uint32_t source = group.begin;
  if (source == 0 && vertex.has_own_rank) {  // its bytes pass no network
    --here.pending;
    ++source;
  }
  const std::uint32_t own = vertex.has_own_rank ? 1 : 0;
  for (; source < std::min(group.end, ranks); ++source) {
    const std::uint32_t rank = source - own;
    send_note(trees_.trees[vertex.tree].down_way[vertex.ranks[rank]],
              {Kind::kPullRank, tile, number, rank});
  }
  if (group.end <= ranks) return;
  for (const std::uint32_t child : here.early) {
    send_note(way_to_child(vertex, child), {Kind::kPullPartial, tile, number, child});
  }
  here.early.clear();
}

void NodeRun::ready(const Note& ready) {
  const NodeVertex& vertex = trees_.vertices[ready.vertex];
  Work& here = work(ready.tile, ready.vertex);
  if (here.group.end > vertex.rank_inputs()) {
    send_note(way_to_child(vertex, ready.index),
              {Kind::kPullPartial, ready.tile, ready.vertex, ready.index});
  } else {
    here.early.push_back(ready.index);
  }
}

void NodeRun::pull(const Note& note) {
  const NodeVertex& vertex = trees_.vertices[note.vertex];
  const plan::VertexId from = note.kind == Kind::kPullRank
                                  ? vertex.ranks[note.index]
                                  : trees_.vertices[vertex.child_nodes[note.index]].machine;
  send(trees_.trees[vertex.tree].up_way[from], note.tile, note.vertex, Payload::kInput);
}

void NodeRun::input_came(std::uint32_t tile, std::uint32_t number) {
  Work& here = work(tile, number);
  if (--here.pending > 0) return;
  const NodeVertex& vertex = trees_.vertices[number];
  const Group group = here.group;
  nodes_[vertex.machine].scheduler.pulled(kJob, vertex.height - 1,
                                          landing_bytes(tile, vertex, group), nanos());
  if (group.end < vertex.inputs()) {
    pull_group(tile, number, group.end);
  } else {
    summed(tile, number);
  }
  start_tiles(vertex.machine);
}

void NodeRun::summed(std::uint32_t tile, std::uint32_t number) {
  const NodeVertex& vertex = trees_.vertices[number];
  if (!vertex.is_root()) {
    nodes_[vertex.machine].scheduler.finished(kJob, vertex.height - 1);
    return send_note(way_to_parent(vertex), {Kind::kReady, tile, vertex.parent, vertex.index});
  }
  tiles_[tile].placing = static_cast<std::uint32_t>(vertex.child_nodes.size());
  hand_down(tile, number);
  start_pushing(tile, number);
}

}  // namespace tally::simulator
