// An operation over trees as nodes carry it out: with the order of tiles, the windows, the tile
// entries, the pull groups and the buffers between nodes (docs/protocol.md, "The order of tiles").
// The decisions are those of the product's own code: TileScheduler chooses the next tile and keeps
// the windows, tile_bytes(), paced_pieces() and served_pieces() size the tiles and buffers,
// group_from() and receivers_at_once() group ranks. Only the protocol around them is modelled here:
// who asks whom for a tile, and when it ends.
//
// A node has one shard. All ranks have announced when the slowest worker has its gradient. Messages
// between nodes, and between nodes and ranks, are short, but wait in the queues of links.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "control/plan/model/pieces.h"
#include "control/sim/core/run.h"
#include "control/sim/runs/node_tree.h"
#include "dataplane/partition/groups.h"
#include "dataplane/protocol/job/config.h"
#include "dataplane/protocol/job/vertex.h"
#include "dataplane/protocol/scheduling/pacer.h"
#include "dataplane/protocol/scheduling/tile_scheduler.h"

namespace tally::simulator {

class NodeRun final : public Run {
 public:
  // `rate`: bytes of operations per second that the plan promises (1 / tau). `passages` and
  // `fabric` must outlive this object. Precondition: as node_trees().
  NodeRun(Fabric& fabric, Passages& passages, const TreeSet& set,
          std::span<const plan::VertexId> workers, const ReadyTimes& ready,
          const NodeOptions& options, double rate);

  void start() override;
  bool done() const override { return announced_ && bytes_left_ == 0; }
  void delivered(const Message& message) override;
  void timer(std::uint32_t note) override;

  const plan::Pieces& pieces() const { return pieces_; }

 private:
  static constexpr protocol::JobId kJob = 0;
  // What a node learns, by a message unless it says otherwise.
  enum class Kind : std::uint8_t {
    kAnnounced,    // all ranks have announced: after a latency for each level
    kRelease,      // roots are due: no message
    kWanted,       // the parent node requests the tile
    kReady,        // the child node `index` has the partial sum
    kPullRank,     // rank `index` is pulled
    kPullPartial,  // the partial sum of child node `index` is pulled
    kPlaced,       // all below child node `index` have the result
    kPushed,       // the transport's answer: a receiver of the vertex has the bytes
  };
  struct Note {
    Kind kind = Kind::kAnnounced;
    std::uint32_t tile = 0;
    std::uint32_t vertex = 0;  // that learns it; of a pull, the vertex that pulls
    std::uint32_t index = 0;
  };

  // What the bytes of a Message are; Message::who has it in its lowest bits, and the vertex above.
  // Message::what is a tile, or a note.
  enum class Payload : std::uint8_t { kInput, kToRank, kToNode, kNote };
  static constexpr std::uint32_t kPayloads = 4;

  struct Tile {
    std::uint32_t tree = 0;
    std::uint32_t bytes = 0;
    std::uint32_t first = 0;    // of its records in work_
    std::uint32_t placing = 0;  // child nodes of the root below which a result is on its way
  };

  // A tile at a vertex.
  struct Work {
    protocol::Group group;             // that is pulled now
    std::uint32_t pending = 0;         // inputs of the group that have not come
    std::vector<std::uint32_t> early;  // child nodes whose partial sums wait for their group
    std::uint32_t rank_next = 0;       // the next rank to push to
    std::uint32_t pushes = 0;          // receivers that do not have the result yet
    bool kept_back = false;
  };

  struct Node {
    protocol::TileScheduler scheduler;
    std::deque<std::pair<std::uint32_t, std::uint32_t>> kept_back;  // (tile, vertex)
  };

  // The down buffers of a child node for one parent node and height.
  struct DownPool {
    std::uint32_t free = 0;
    std::deque<std::pair<std::uint32_t, std::uint32_t>> waiting;  // (tile, the child's vertex)
  };

  void add_roots(const std::vector<double>& shares, double rate);
  plan::Pieces pieces_of(const TreeSet& set) const;
  void announce();
  void send_note(std::uint32_t way, const Note& note);
  std::uint32_t way_to_child(const NodeVertex& vertex, std::uint32_t index) const;
  std::uint32_t way_to_parent(const NodeVertex& vertex) const;
  std::uint32_t number_of(const Note& note);
  void wake_for_release();
  void release();
  std::uint64_t tile_size(const NodeVertex& root) const;
  std::uint64_t age_of(std::uint32_t tree) const;
  void start_tiles(plan::VertexId machine);
  void start_tile(std::uint32_t vertex);
  std::uint32_t cut(const NodeVertex& root);
  void wanted(const Note& note);

  void pull_group(std::uint32_t tile, std::uint32_t vertex, std::uint32_t begin);
  void pull(const Note& note);
  void input_came(std::uint32_t tile, std::uint32_t vertex);
  void ready(const Note& note);
  void summed(std::uint32_t tile, std::uint32_t vertex);

  void start_pushing(std::uint32_t tile, std::uint32_t vertex);
  void push_kept_back(plan::VertexId machine);
  void push_ranks(std::uint32_t tile, std::uint32_t vertex);
  void push_rank(std::uint32_t tile, std::uint32_t vertex);
  void hand_down(std::uint32_t tile, std::uint32_t vertex);
  void grant(DownPool& pool);
  void result_came(std::uint32_t tile, std::uint32_t vertex);
  void answered(const Note& note);
  void pushed(std::uint32_t tile, std::uint32_t vertex);
  void placed(const Note& note);
  void end_root(std::uint32_t tile, std::uint32_t vertex);
  void conclude(std::uint32_t tile);

  void send(std::uint32_t way, std::uint32_t tile, std::uint32_t vertex, Payload payload);
  Work& work(std::uint32_t tile, std::uint32_t vertex) {
    return work_[tiles_[tile].first + trees_.vertices[vertex].number];
  }
  std::uint64_t landing_bytes(std::uint32_t tile, const NodeVertex& vertex,
                              const protocol::Group& group) const;
  std::uint64_t pushed_bytes(std::uint32_t tile, const NodeVertex& vertex) const;
  Nanos nanos() const { return std::llround(fabric_.now() * kSecond); }

  Fabric& fabric_;
  const Passages& passages_;
  protocol::AggregatorConfig config_;
  NodeTrees trees_;
  std::vector<std::uint64_t> left_;  // by tree: bytes that the root has not cut
  std::uint32_t home_ = 0;
  double announced_at_ = 0;
  bool announced_ = false;
  protocol::Pacer pacer_;             // of all roots; a tree's number is its vertex
  std::vector<std::uint64_t> paces_;  // by tree; empty: roots have none
  Nanos wakes_at_ = kForever;         // for the next release
  plan::Pieces pieces_;
  std::uint64_t bytes_left_ = 0;  // of the operation: not everywhere yet
  std::vector<Node> nodes_;
  std::vector<std::deque<std::uint32_t>> wanted_;  // by vertex: tiles
  std::vector<DownPool> pools_;
  std::unordered_map<std::uint32_t, std::uint32_t> ways_back_;  // of answers, by ways to ranks
  std::vector<Tile> tiles_;
  std::vector<Work> work_;
  std::vector<std::vector<std::uint32_t>> free_work_;  // by tree: first records of ended tiles
  std::vector<Note> notes_;
  std::vector<std::uint32_t> free_notes_;
};

}  // namespace tally::simulator
