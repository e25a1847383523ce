// A job over a tree of shards, with its workers, in one thread, moved by hand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dataplane/engine/shard.h"
#include "dataplane/wire/completion.h"
#include "tests/support/checksums.h"
#include "tests/support/loopback_uplink.h"
#include "tests/support/reference.h"
#include "tests/support/tree_reference.h"

namespace tally::testing {

class ShardTree {
 public:
  static constexpr std::uint32_t kIn = 1;
  static constexpr std::uint32_t kOut = 2;
  static constexpr std::uint32_t kSide = 3;
  static constexpr std::uint32_t kSlots = 9;
  static constexpr std::uint32_t kEpoch = 7;
  // A branch's number among the job's children is not its number at the transport.
  static constexpr transport::Peer kPeersBetween = 3;

  struct Options {
    TreeShape tree;
    transport::LoopbackConfig loopback;
    std::uint64_t region_bytes = 256 << 10;
    std::uint64_t tile_bytes = 16 << 10;
    std::uint32_t tiles = 4;
    std::uint32_t upper_tiles = 4;
    std::uint32_t credit = 8;
    std::uint64_t slot_bytes = 64 << 10;
    std::uint32_t up_slots = 4;
    std::uint32_t down_slots = 2;
    // Puts something between each shard and its loopback; null: nothing.
    std::function<std::unique_ptr<transport::Transport>(transport::Loopback&)> decorate;
  };

  struct Worker {
    std::size_t vertex = 0;  // its parent
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
  engine::Uplink& uplink(std::size_t vertex) { return *nodes_[vertex].uplink; }
  // What verdicts name a vertex by.
  static std::uint32_t node_number(std::size_t vertex) {
    return 100 + static_cast<std::uint32_t>(vertex);
  }
  // Of a vertex that is not the root, at its parent.
  transport::Peer branch(std::size_t vertex) const { return nodes_[vertex].peer; }

  void send(std::uint16_t rank, const wire::Notice& notice) {
    loopback(workers_[rank].vertex).send(rank, wire::encode(notice));
  }
  // The rank's checksums, behind its statistics.
  void add_checksums(std::uint16_t rank, const protocol::Shape& shape, wire::Notice& notice) {
    notice.flags |= wire::kHasChecksums;
    notice.side_region = kSide;
    const bool stats = (notice.flags & wire::kWantStats) != 0;
    write_checksums(shape, rank, workers_[rank].in.data() + notice.in_offset,
                    workers_[rank].side.data() + protocol::checksums_offset(shape.count, stats));
  }

  std::vector<wire::Completion> take(std::uint16_t rank) {
    std::vector<wire::Completion> completions;
    RingSlot slot;
    while (loopback(workers_[rank].vertex).take(rank, {&slot, 1}) > 0) {
      completions.emplace_back();
      if (wire::parse(slot, completions.back()) != Status::kOk) completions.clear();
    }
    return completions;
  }

  void turn(Nanos passing = kMillisecond) {
    now_ += passing;
    for (Node& node : nodes_) node.shard().turn(now_);
  }
  // Turns until there is nothing left to do.
  void settle() {
    for (int quiet = 0; quiet < 40;) {
      now_ += kMillisecond;
      bool worked = false;
      for (Node& node : nodes_) worked |= node.shard().turn(now_);
      quiet = worked ? 0 : quiet + 1;
    }
  }
  Nanos now() const { return now_; }

  // Nothing held, nothing under way, no operation known any more that has not failed.
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
    std::unique_ptr<LoopbackUplink> uplink;
    transport::Peer peer = transport::kNoPeer;
    std::uint16_t branches = 0;  // connected so far

    engine::Shard& shard() { return *owned; }
  };

  protocol::SlotLayout layout() const {
    return {options_.slot_bytes, options_.up_slots, options_.down_slots,
            height_of(options_.tree, 0) - 1};
  }

  void add_node(std::size_t v) {
    const TreeShape& tree = options_.tree;
    engine::ShardConfig config;
    config.protocol.plan = protocol::even_plan(1, 1 << 20);
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
      vertex.branches.push_back(
          {static_cast<std::uint16_t>(vertex.branches.size()), ranks_below(tree, child)});
    }
    if (v != 0) vertex.parent = 0;
    protocol::JobSpec spec{.epoch = kEpoch, .ranks = ranks(), .credit = options_.credit};
    spec.plan = config.protocol.plan;
    spec.branches = static_cast<std::uint16_t>(vertex.branches.size());
    spec.parents = v == 0 ? 0 : 1;
    for (const std::size_t child : children_of(tree, v)) {
      spec.branch_nodes.push_back(node_number(child));
    }
    if (v != 0) spec.parent_nodes.push_back(node_number(tree[v].parent));
    spec.slots = layout();
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
    const auto child = static_cast<std::uint16_t>(ranks_ + parent.branches++);
    const transport::Peer peer = child + kPeersBetween;
    nodes_[v].peer = peer;
    nodes_[v].uplink =
        std::make_unique<LoopbackUplink>(*parent.loopback, peer, kSlots, layout().total_bytes());
    parent.shard().protocol().join(0, child, peer);
    shard(v).add_uplink(0, *nodes_[v].uplink, 0, layout());
    shard(v).protocol().join_parent(0, 0, 0, kSlots, now_);
  }

  Options options_;
  std::size_t ranks_;
  std::vector<Worker> workers_;
  std::vector<Node> nodes_;
  Nanos now_ = 0;
};

}  // namespace tally::testing
