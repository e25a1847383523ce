#include "tests/sim/trees/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace tally::sim::trees {
namespace {

using wire::Kind;

constexpr std::uint32_t kMaxHeight = 4;
constexpr std::size_t kTags = 7;
constexpr std::uint64_t kBufferBytes = 32 << 10;  // 4096 elements of any type

// Which level of the tree a vertex is on; the root's is 1.
std::uint32_t level(const Tree& tree, std::uint32_t vertex) {
  std::uint32_t levels = 1;
  for (; tree[vertex].parent != kNone; vertex = tree[vertex].parent) ++levels;
  return levels;
}

// Ranks below and heights, from the leaves up: a child stands behind its parent in the list.
void work_out(Tree& tree) {
  for (TreeVertex& vertex : tree) {
    vertex.child_nodes.clear();
    vertex.below = vertex.ranks;
    vertex.height = 1;
  }
  for (std::uint32_t i = static_cast<std::uint32_t>(tree.size()); i-- > 0;) {
    TreeVertex& vertex = tree[i];
    std::sort(vertex.below.begin(), vertex.below.end());
    std::sort(vertex.child_nodes.begin(), vertex.child_nodes.end(),
              [&](std::uint32_t a, std::uint32_t b) { return tree[a].node < tree[b].node; });
    if (vertex.parent == kNone) continue;
    TreeVertex& parent = tree[vertex.parent];
    parent.child_nodes.push_back(i);
    parent.below.insert(parent.below.end(), vertex.below.begin(), vertex.below.end());
    parent.height = std::max(parent.height, vertex.height + 1);
  }
}

// Some of the nodes in any order, each below an earlier one; then ranks for the leaves first, so
// that none is left without. Nodes with nothing but child nodes are helpers.
Tree random_tree(Random& random, std::uint32_t nodes, std::uint16_t ranks) {
  std::vector<std::uint32_t> order(nodes);
  std::iota(order.begin(), order.end(), 0u);
  random.shuffle(order);
  const std::size_t most = random.between(1, nodes);
  const double deep = random.chance(0.5) ? 0.8 : 0.3;
  Tree tree;
  for (std::size_t i = 0; i < most; ++i) {
    TreeVertex vertex;
    vertex.node = order[i];
    if (i > 0) {
      const auto last = static_cast<std::uint32_t>(i - 1);
      vertex.parent = random.chance(deep) ? last : static_cast<std::uint32_t>(random.below(i));
      if (level(tree, vertex.parent) == kMaxHeight) vertex.parent = 0;
    }
    tree.push_back(vertex);
  }
  const auto has_child = [&](std::size_t i) {
    return std::any_of(tree.begin(), tree.end(),
                       [&](const TreeVertex& vertex) { return vertex.parent == i; });
  };
  std::vector<std::size_t> leaves;
  for (std::size_t i = 0; i < tree.size(); ++i) {
    if (!has_child(i)) leaves.push_back(i);
  }
  if (leaves.size() > ranks)
    return random_tree(random, std::min<std::uint32_t>(nodes, ranks), ranks);
  std::vector<std::uint16_t> all(ranks);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  random.shuffle(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t to = i < leaves.size() ? leaves[i] : random.below(tree.size());
    tree[to].ranks.push_back(all[i]);
  }
  for (TreeVertex& vertex : tree) std::sort(vertex.ranks.begin(), vertex.ranks.end());
  work_out(tree);
  return tree;
}

// Another way from the same root to the same ranks.
Tree random_result_tree(Random& random, std::uint32_t nodes, std::uint16_t ranks,
                        std::uint32_t root) {
  Tree tree = random_tree(random, nodes, ranks);
  for (TreeVertex& vertex : tree) {
    if (vertex.node == root) vertex.node = tree.front().node;
  }
  tree.front().node = root;
  work_out(tree);
  return tree;
}

// Has random numbers of its own: without result trees the seed's plan is the same.
void add_result_trees(JobPlan& job, std::uint32_t nodes, std::uint64_t seed) {
  Random random(seed);
  if (random.chance(0.4)) return;
  const std::size_t sums = job.trees.size();
  std::vector<std::uint32_t>& results = job.plan.result_trees;
  results.assign(sums, protocol::kNoTree);
  for (std::size_t tree = 0; tree < sums; ++tree) {
    if (random.chance(0.3)) continue;
    results[tree] = static_cast<std::uint32_t>(job.trees.size());
    const std::uint32_t root = job.trees[tree].front().node;
    job.trees.push_back(random_result_tree(random, nodes, job.ranks, root));
  }
  job.plan.trees = static_cast<std::uint32_t>(job.trees.size());
  results.resize(job.trees.size(), protocol::kNoTree);
  const Tree& tree = job.trees.back();
  if (random.chance(0.5)) job.victim_node = tree[random.below(tree.size())].node;
}

// Some of the trees, with any weights.
protocol::SizeClass random_class(Random& random, std::uint32_t trees) {
  protocol::SizeClass some;
  const auto always = static_cast<std::uint32_t>(random.below(trees));
  for (std::uint32_t tree = 0; tree < trees; ++tree) {
    if (tree == always || random.chance(0.7)) some.trees.push_back(tree);
  }
  const auto count = static_cast<std::uint32_t>(some.trees.size());
  std::uint32_t left = protocol::kWeightUnit;
  for (std::uint32_t i = 1; i < count; ++i) {
    some.weights.push_back(static_cast<std::uint32_t>(random.between(1, left / (count - i + 1))));
    left -= some.weights.back();
  }
  some.weights.push_back(left);
  return some;
}

protocol::Partition random_classes(Random& random, std::uint32_t trees) {
  protocol::Partition plan;
  plan.trees = trees;
  plan.classes = {random_class(random, trees), random_class(random, trees)};
  plan.classes[0].max_bytes = random.between(0, 32 << 10);
  plan.classes[1].divided = true;
  return plan;
}

std::uint64_t random_count(Random& random) {
  switch (random.below(10)) {
    case 0:
      return random.below(3);
    case 1:
      return random.between(4094, 4099);  // around a block
    case 2:
    case 3:
      return random.between(20'000, 40'000);  // many tiles
    case 4:
    case 5:
    case 6:
      return random.between(4'000, 16'000);
    default:
      return random.between(8, 600);
  }
}

protocol::Shape random_shape(Random& random, std::uint16_t ranks) {
  constexpr std::array kTypes = {ElementType::kI32, ElementType::kF32, ElementType::kBf16,
                                 ElementType::kI32, ElementType::kF32, ElementType::kBf16,
                                 ElementType::kF16, ElementType::kF64, ElementType::kI64};
  protocol::Shape shape;
  shape.ranks = ranks;
  shape.kind = static_cast<Kind>(random.chance(0.5) ? 1 : random.between(1, 6));
  shape.type = kTypes[random.below(kTypes.size())];
  shape.operation = static_cast<Operation>(random.below(kOperationNames.size()));
  shape.count = shape.kind == Kind::kBarrier ? 0 : random_count(random);
  const bool rooted = shape.kind == Kind::kReduce || shape.kind == Kind::kBroadcast;
  shape.root = rooted ? static_cast<std::uint16_t>(random.below(ranks)) : 0;
  return shape;
}

OpPlan random_op(Random& random, const JobPlan& job, std::size_t index) {
  OpPlan op;
  op.tag = static_cast<std::uint32_t>(index % kTags);
  op.round = static_cast<std::uint32_t>(index / kTags);
  op.shape = random_shape(random, job.ranks);
  op.priority = static_cast<std::uint8_t>(random.below(3));
  op.in_place = random.chance(0.5) ? random.next() : 0;
  const bool whole = op.shape.kind == Kind::kAllReduce || op.shape.kind == Kind::kReduce;
  if (whole && random.chance(0.3)) op.wants_stats = random.next();
  op.faulty = random.chance(0.4);
  return op;
}

JobPlan random_job(Random& random, std::uint32_t nodes, bool healthy) {
  JobPlan job;
  job.ranks = static_cast<std::uint16_t>(random.between(1, 8));
  job.weight = static_cast<std::uint32_t>(random.between(1, 3));
  const std::size_t trees = random.between(1, 5);
  for (std::size_t i = 0; i < trees; ++i) {
    job.trees.push_back(random_tree(random, nodes, job.ranks));
  }
  job.plan = random_classes(random, static_cast<std::uint32_t>(trees));
  job.buffers.bytes = kBufferBytes * random.between(1, 2);
  job.buffers.up = static_cast<std::uint32_t>(random.between(1, 3));
  job.buffers.down = static_cast<std::uint32_t>(random.between(1, 3));
  job.buffers.classes = kMaxHeight - 1;
  if (!healthy) job.fault = static_cast<Fault>(random.below(kFaults));
  if (job.fault == Fault::kMismatch && job.ranks == 1) job.fault = Fault::kNothing;
  const std::size_t ops = random.between(2, 16);
  for (std::size_t i = 0; i < ops; ++i) job.ops.push_back(random_op(random, job, i));
  // Who does not announce a round announces none after it.
  for (std::size_t i = kTags; i < ops; ++i) {
    if (job.fault == Fault::kAbsent) job.ops[i].faulty |= job.ops[i - kTags].faulty;
  }
  job.victim = static_cast<std::uint16_t>(random.below(job.ranks));
  const Tree& tree = random.pick(job.trees);
  job.victim_node = tree[random.below(tree.size())].node;
  job.when = random.between(1, 1500);
  job.takes_back = random.chance(0.3);
  return job;
}

}  // namespace

std::string_view name(Fault fault) {
  constexpr std::array<std::string_view, kFaults> kNames = {
      "nothing", "rank lost", "node lost", "absent", "mismatch", "cancel", "bad region"};
  return kNames[static_cast<std::size_t>(fault)];
}

std::uint32_t Schedule::max_height() const {
  return kMaxHeight;
}

Schedule make_schedule(std::uint64_t seed, bool healthy) {
  Random random(seed * 2 + (healthy ? 1 : 0));
  Schedule schedule;
  schedule.seed = seed;
  schedule.nodes = static_cast<std::uint32_t>(random.between(1, 6));
  schedule.tiles = static_cast<std::uint32_t>(random.between(1, 3));
  schedule.upper_tiles = static_cast<std::uint32_t>(random.between(1, 2));
  schedule.window_bytes = random.chance(0.3) ? 1 : 1 << 20;
  schedule.tile_bytes = (16 << 10) * random.between(1, 3);
  schedule.pace = seed % 3 == 0 ? 100'000'000 : 0;
  schedule.laziness = random.chance(0.5) ? 0.3 : 0;
  const std::size_t jobs = random.chance(0.3) ? 2 : 1;
  for (std::size_t i = 0; i < jobs; ++i) {
    schedule.jobs.push_back(random_job(random, schedule.nodes, healthy));
    add_result_trees(schedule.jobs.back(), schedule.nodes, seed * 5 + i * 2 + (healthy ? 1 : 0));
    schedule.jobs.back().plan.classes.back().in_order = (seed + i) % 4 == 0;
    // No other job survives that.
    if (schedule.jobs.back().fault != Fault::kNodeLost) continue;
    schedule.jobs.assign(1, JobPlan(schedule.jobs.back()));
    break;
  }
  return schedule;
}

std::string describe(const Schedule& schedule) {
  std::string text =
      fmt::format("{} nodes, {} and {} tiles, pace {}, laziness {}", schedule.nodes, schedule.tiles,
                  schedule.upper_tiles, schedule.pace, schedule.laziness);
  for (const JobPlan& job : schedule.jobs) {
    text += fmt::format(
        "; {} ranks, {} ops, {} up and {} down buffers, {}, victim rank {} node {}:", job.ranks,
        job.ops.size(), job.buffers.up, job.buffers.down, name(job.fault), job.victim,
        job.victim_node);
    for (std::uint32_t i = 0; i < job.trees.size(); ++i) {
      const Tree& tree = job.trees[i];
      const std::uint32_t sums = job.plan.sum_tree(i);
      text += sums == protocol::kNoTree ? " [" : fmt::format(" [results of tree {}:", sums);
      for (const TreeVertex& vertex : tree) {
        text += fmt::format(
            " n{}<{} {{{}}}", vertex.node,
            vertex.parent == kNone ? "root" : fmt::format("n{}", tree[vertex.parent].node),
            fmt::join(vertex.ranks, ","));
      }
      text += " ]";
    }
  }
  return text;
}

}  // namespace tally::sim::trees
