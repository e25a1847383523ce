// A job over a tree of shards, with its workers, in one thread. The test calls each turn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dataplane/engine/shard.h"
#include "dataplane/wire/completion.h"
#include "tests/support/checksums.h"
#include "tests/support/loopback_parent_connection.h"
#include "tests/support/reference.h"
#include "tests/support/tree_reference.h"

namespace tally::testing {

class ShardTree {
 public:
  static constexpr std::uint32_t kIn = 1;
  static constexpr std::uint32_t kOut = 2;
  static constexpr std::uint32_t kSide = 3;
  static constexpr std::uint32_t kBufferRegion = 9;
  static constexpr std::uint32_t kEpoch = 7;
  // Added to a child node's number in the job to get its number at the transport, so that the two
  // differ.
  static constexpr transport::Peer kPeersBetween = 3;

  struct Options {
    TreeShape tree;
    transport::LoopbackConfig loopback;
    std::uint64_t region_bytes = 256 << 10;
    std::uint64_t tile_bytes = 16 << 10;
    std::uint32_t tiles = 4;
    std::uint32_t upper_tiles = 4;
    std::uint32_t credit = 8;
    std::uint64_t buffer_bytes = 64 << 10;
    std::uint32_t up_buffers = 4;
    std::uint32_t down_buffers = 2;
    // Makes a decorator between each shard and its loopback; null: no decorator.
    std::function<std::unique_ptr<transport::Transport>(transport::Loopback&)> decorate;
  };

  struct Worker {
    std::size_t vertex = 0;  // vertex of its parent
    std::vector<std::byte> in, out, side;
  };

  explicit ShardTree(const Options& options)
      : options_(options),
        ranks_(ranks_below(options.tree, 0).size()),
        workers_(ranks_),
        nodes_(options.tree.size()) {
    for (std::size_t v = 0; v < nodes_.size(); ++v) add_node(v);
    for (std::size_t v = 1; v < nodes_.size(); ++v) connect(v);
  }

  std::uint16_t ranks() const { return static_cast<std::uint16_t>(ranks_); }
  Worker& worker(std::uint16_t rank) { return workers_[rank]; }
  engine::Shard& shard(std::size_t vertex) { return nodes_[vertex].shard(); }
  transport::Loopback& loopback(std::size_t vertex) { return *nodes_[vertex].loopback; }
  engine::ParentConnection& parent_connection(std::size_t vertex) {
    return *nodes_[vertex].parent_connection;
  }
  // The number by which verdicts name a vertex.
  static std::uint32_t node_number(std::size_t vertex) {
    return 100 + static_cast<std::uint32_t>(vertex);
  }
  // The vertex's peer number at its parent's transport. Precondition: the vertex is not the root.
  transport::Peer child_node(std::size_t vertex) const { return nodes_[vertex].peer; }

  void send(std::uint16_t rank, const wire::Notice& notice) {
    loopback(workers_[rank].vertex).send(rank, wire::encode(notice));
  }
  // Writes the rank's checksums behind its statistics, and sets the notice's fields for them.
  void add_checksums(std::uint16_t rank, const protocol::Shape& shape, wire::Notice& notice) {
    notice.flags |= wire::kHasChecksums;
    notice.side_region = kSide;
    const bool stats = (notice.flags & wire::kWantStats) != 0;
    write_checksums(shape, rank, workers_[rank].in.data() + notice.in_offset,
                    workers_[rank].side.data() + protocol::checksums_offset(shape.count, stats));
  }

  std::vector<wire::Completion> take(std::uint16_t rank) {
    std::vector<wire::Completion> completions;
    RingEntry entry;
    while (loopback(workers_[rank].vertex).take(rank, {&entry, 1}) > 0) {
      completions.emplace_back();
      if (wire::parse(entry, completions.back()) != Status::kOk) completions.clear();
    }
    return completions;
  }

  void turn(Nanos passing = kMillisecond) {
    now_ += passing;
    for (Node& node : nodes_) node.shard().turn(now_);
  }
  // Runs turns until there is nothing left to do.
  void settle() {
    for (int quiet = 0; quiet < 40;) {
      now_ += kMillisecond;
      bool worked = false;
      for (Node& node : nodes_) worked |= node.shard().turn(now_);
      quiet = worked ? 0 : quiet + 1;
    }
  }
  Nanos now() const { return now_; }

  // True when no view is held and no pull, push or tile is in progress at any vertex.
  bool clean() {
    return std::all_of(nodes_.begin(), nodes_.end(), [](Node& node) {
      const transport::Loopback& one = *node.loopback;
      return one.views_held() == 0 && one.pulls_outstanding() == 0 &&
             one.pushes_outstanding() == 0 && node.shard().tiles_in_flight() == 0;
    });
  }

 private:
  struct Node {
    std::unique_ptr<transport::Loopback> loopback;
    std::unique_ptr<transport::Transport> decorator;
    std::unique_ptr<engine::Shard> owned;
    std::unique_ptr<LoopbackParentConnection> parent_connection;
    transport::Peer peer = transport::kNoPeer;
    std::uint16_t child_nodes = 0;  // child nodes connected so far

    engine::Shard& shard() { return *owned; }
  };

  protocol::BufferLayout layout() const {
    return {options_.buffer_bytes, options_.up_buffers, options_.down_buffers,
            height_of(options_.tree, 0) - 1};
  }

  void add_node(std::size_t v) {
    const TreeShape& tree = options_.tree;
    engine::ShardConfig config;
    config.protocol.plan = protocol::even_partition(1, 1 << 20);
    config.protocol.tile_bytes = options_.tile_bytes;
    config.protocol.tiles = options_.tiles;
    config.protocol.upper_tiles = options_.upper_tiles;
    config.protocol.max_height = height_of(tree, 0);
    config.kernels = summation::kernels(summation::best_isa());
    config.crc32c = Crc32c::open().value();
    config.max_ranks = static_cast<std::uint32_t>(ranks_);
    nodes_[v].loopback = std::make_unique<transport::Loopback>(options_.loopback);
    if (options_.decorate) nodes_[v].decorator = options_.decorate(*nodes_[v].loopback);
    transport::Transport* seen = nodes_[v].decorator.get();
    nodes_[v].owned = std::make_unique<engine::Shard>(config, seen ? *seen : *nodes_[v].loopback);

    protocol::Vertex vertex;
    vertex.height = height_of(tree, v);
    vertex.ranks = tree[v].ranks;
    for (const std::size_t child : children_of(tree, v)) {
      vertex.child_nodes.push_back(
          {static_cast<std::uint16_t>(vertex.child_nodes.size()), ranks_below(tree, child)});
    }
    if (v != 0) vertex.parent = 0;
    protocol::JobSpec spec{.epoch = kEpoch, .ranks = ranks(), .credit = options_.credit};
    spec.plan = config.protocol.plan;
    spec.child_nodes = static_cast<std::uint16_t>(vertex.child_nodes.size());
    spec.parents = v == 0 ? 0 : 1;
    for (const std::size_t child : children_of(tree, v)) {
      spec.child_node_numbers.push_back(node_number(child));
    }
    if (v != 0) spec.parent_node_numbers.push_back(node_number(tree[v].parent));
    spec.buffers = layout();
    spec.vertices.push_back(vertex);
    shard(v).protocol().add_job(0, spec);
    for (const std::uint16_t rank : tree[v].ranks) add_worker(v, rank);
  }

  void add_worker(std::size_t v, std::uint16_t rank) {
    Worker& worker = workers_[rank];
    worker.vertex = v;
    for (auto* memory : {&worker.in, &worker.out, &worker.side}) {
      memory->assign(options_.region_bytes, std::byte{0xee});
    }
    loopback(v).connect(rank);
    loopback(v).add_region(rank, kIn, worker.in);
    loopback(v).add_region(rank, kOut, worker.out);
    loopback(v).add_region(rank, kSide, worker.side);
    shard(v).protocol().join(0, rank, rank);
  }

  void connect(std::size_t v) {
    Node& parent = nodes_[options_.tree[v].parent];
    const auto child = static_cast<std::uint16_t>(ranks_ + parent.child_nodes++);
    const transport::Peer peer = child + kPeersBetween;
    nodes_[v].peer = peer;
    nodes_[v].parent_connection = std::make_unique<LoopbackParentConnection>(
        *parent.loopback, peer, kBufferRegion, layout().total_bytes());
    parent.shard().protocol().join(0, child, peer);
    shard(v).add_parent_connection(0, *nodes_[v].parent_connection, 0, layout());
    shard(v).protocol().join_parent(0, 0, 0, kBufferRegion, now_);
  }

  Options options_;
  std::size_t ranks_;
  std::vector<Worker> workers_;
  std::vector<Node> nodes_;
  Nanos now_ = 0;
};

}  // namespace tally::testing
