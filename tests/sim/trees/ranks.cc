#include "tests/sim/trees/ranks.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "summation/scalar.h"
#include "tests/sim/trees/fold.h"
#include "tests/sim/trees/world.h"

namespace tally::sim::trees {
namespace {

constexpr std::uint32_t kDeadlineMs = 5000;

enum Buffer : std::uint32_t { kIn, kOut, kStats };

std::uint32_t region(std::size_t op, Buffer buffer) {
  return static_cast<std::uint32_t>(op * 3 + buffer + 1);
}

// Values whose sums depend on their order, and stay finite.
void fill(std::vector<std::byte>& memory, ElementType type, std::uint64_t count, Random& random) {
  memory.resize(count * element_bytes(type));
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random.next();
    const auto value =
        static_cast<float>(static_cast<std::int64_t>(bits % 200'001) - 100'000) / 1024.0F;
    std::byte* const at = memory.data() + i * element_bytes(type);
    if (type == ElementType::kF32) {
      std::memcpy(at, &value, 4);
    } else if (type == ElementType::kF64) {
      const double wide = value;
      std::memcpy(at, &wide, 8);
    } else if (type == ElementType::kF16 || type == ElementType::kBf16) {
      const std::uint16_t half = type == ElementType::kF16 ? summation::scalar::round_f16(value)
                                                           : summation::scalar::round_bf16(value);
      std::memcpy(at, &half, 2);
    } else {
      std::memcpy(at, &bits, element_bytes(type));
    }
  }
}

}  // namespace

bool Ranks::Posted::ended() const {
  return posted && std::all_of(parts.begin(), parts.end(), [](const Part& p) { return p.ended; });
}

Ranks::Ranks(World& world, const JobPlan& plan, std::size_t job)
    : world_(world), plan_(plan), job_(job), ranks_(plan.ranks) {
  for (std::uint16_t rank = 0; rank < plan.ranks; ++rank) {
    ranks_[rank].ops.resize(plan.ops.size());
    ranks_[rank].order.resize(plan.ops.size());
    std::iota(ranks_[rank].order.begin(), ranks_[rank].order.end(), std::size_t{0});
    world.random().shuffle(ranks_[rank].order);
    for (std::size_t op = 0; op < plan.ops.size(); ++op) {
      const bool absent = plan.fault == Fault::kAbsent && plan.ops[op].faulty;
      ranks_[rank].ops[op].skipped = absent && rank == plan.victim;
      prepare(rank, op);
    }
  }
}

std::string Ranks::title(std::size_t op, std::uint16_t part) const {
  return fmt::format("job {} tag {} round {} part {}", job_, plan_.ops[op].tag, plan_.ops[op].round,
                     part);
}

std::uint32_t Ranks::parent_of(std::uint32_t tree, std::uint16_t rank) const {
  for (const TreeVertex& vertex : plan_.trees[tree]) {
    if (std::binary_search(vertex.ranks.begin(), vertex.ranks.end(), rank)) return vertex.node;
  }
  violated("rank {} has no parent in tree {}", rank, tree);
}

protocol::Shape Ranks::shape_of(std::size_t op, std::uint16_t rank) const {
  protocol::Shape shape = plan_.ops[op].shape;
  if (plan_.fault == Fault::kMismatch && plan_.ops[op].faulty && rank == plan_.victim) {
    shape.operation = static_cast<Operation>((static_cast<int>(shape.operation) + 1) % 4);
  }
  return shape;
}

void Ranks::prepare(std::uint16_t rank, std::size_t op) {
  Posted& posted = ranks_[rank].ops[op];
  const protocol::Shape& shape = plan_.ops[op].shape;
  const std::uint64_t size = element_bytes(shape.type);
  fill(posted.given, shape.type, contribution(shape, rank).count, world_.random());
  posted.in = posted.given;
  const bool same = shape.kind == wire::Kind::kAllReduce || shape.kind == wire::Kind::kReduce;
  const bool in_place = same && (plan_.ops[op].in_place >> rank & 1) != 0;
  if (!in_place) posted.out.assign(result(shape, rank).count * size, std::byte{0xee});
  posted.stats.assign(stats_blocks(shape.count) * sizeof(BlockStats), std::byte{0xee});
  wire::Notice& n = posted.notice;
  const protocol::Shape mine = shape_of(op, rank);
  n.kind = mine.kind;
  n.type = mine.type;
  n.operation = mine.operation;
  n.root = mine.root;
  n.count = mine.count;
  n.priority = plan_.ops[op].priority;
  n.epoch = 1;
  n.tag = plan_.ops[op].tag;
  n.round = plan_.ops[op].round;
  n.cookie = static_cast<std::uint32_t>(op);
  n.in_region = region(op, kIn);
  n.out_region = in_place ? n.in_region : region(op, kOut);
  if ((plan_.ops[op].wants_stats >> rank & 1) != 0) {
    n.flags = wire::kWantStats;
    n.side_region = region(op, kStats);
  }
  if (!plan_.ops[op].faulty) return;
  if (plan_.fault == Fault::kAbsent) n.deadline_ms = kDeadlineMs;
  if (plan_.fault == Fault::kBadRegion && rank == plan_.victim) n.in_region = kNowhere;
}

// One round of a tag at a time.
bool Ranks::may_post(const Rank& rank, std::size_t op) const {
  const Posted& posted = rank.ops[op];
  if (posted.posted || posted.skipped) return false;
  for (std::size_t i = 0; i < plan_.ops.size(); ++i) {
    const bool before =
        plan_.ops[i].tag == plan_.ops[op].tag && plan_.ops[i].round < plan_.ops[op].round;
    if (before && !rank.ops[i].skipped && !rank.ops[i].ended()) return false;
  }
  return true;
}

bool Ranks::act() {
  const std::uint64_t start = world_.random().below(plan_.ranks);
  for (std::uint64_t i = 0; i < plan_.ranks; ++i) {
    const auto rank = static_cast<std::uint16_t>((start + i) % plan_.ranks);
    if (!ranks_[rank].lost && post_one(rank)) return true;
  }
  return false;
}

bool Ranks::post_one(std::uint16_t rank) {
  Rank& here = ranks_[rank];
  if (plan_.fault == Fault::kCancel && rank == plan_.victim) {
    for (std::size_t op = 0; op < plan_.ops.size(); ++op) {
      Posted& posted = here.ops[op];
      if (!plan_.ops[op].faulty || !posted.posted || posted.cancelled || posted.ended()) continue;
      take_back(rank, op, rank);
      return true;
    }
  }
  for (const std::size_t op : here.order) {
    if (!may_post(here, op)) continue;
    post(rank, op);
    return true;
  }
  return false;
}

void Ranks::post(std::uint16_t rank, std::size_t op) {
  Posted& posted = ranks_[rank].ops[op];
  wire::Notice notice = posted.notice;
  const protocol::Operand operand{0, notice.tag, notice.type, notice.count};
  posted.posted = true;
  posted.parts.resize(part_count(plan_.plan, operand));
  for (std::uint16_t part = 0; part < posted.parts.size(); ++part) {
    posted.parts[part].range = cut(plan_.plan, operand, part);
    posted.parts[part].posted = true;
    const std::uint32_t node = parent_of(posted.parts[part].range.tree, rank);
    if (world_.lost(node)) {
      posted.parts[part].ended = true;
      continue;
    }
    notice.part = part;
    world_.notify(job_, rank, node, notice);
  }
}

void Ranks::take_back(std::uint16_t rank, std::size_t op, std::uint16_t account) {
  Posted& posted = ranks_[rank].ops[op];
  if (std::exchange(posted.cancelled, true)) return;
  wire::Notice cancel = posted.notice;
  cancel.kind = wire::Kind::kCancel;
  cancel.flags = 0;
  cancel.root = account < plan_.ranks ? account : rank;
  for (std::uint16_t part = 0; part < posted.parts.size(); ++part) {
    if (posted.parts[part].ended) continue;
    cancel.part = part;
    world_.notify(job_, rank, parent_of(posted.parts[part].range.tree, rank), cancel);
  }
}

std::byte* Ranks::memory(std::uint16_t rank, const protocol::Endpoint& where,
                         const protocol::Tile& tile) {
  const std::size_t op = where.cookie;
  Posted& posted = ranks_[rank].ops[op];
  // A part and its result part have the same elements.
  const bool open = std::any_of(posted.parts.begin(), posted.parts.end(), [&](const Part& part) {
    const protocol::Part& range = part.range;
    return !part.ended && tile.first >= range.first && tile.first < range.first + range.count;
  });
  if (!open) {
    violated("job {} op {}: rank {}'s memory is touched when it is its own again", job_, op, rank);
  }
  const auto buffer = static_cast<Buffer>((where.region - 1) % 3);
  std::vector<std::byte>& memory = buffer == kIn    ? posted.in
                                   : buffer == kOut ? posted.out
                                                    : posted.stats;
  if (where.region != region(op, buffer) || where.offset + where.bytes > memory.size()) {
    violated("{}: rank {}: {} bytes at {} of region {}", title(op, 0), rank, where.bytes,
             where.offset, where.region);
  }
  return memory.data() + where.offset;
}

void Ranks::take(std::uint16_t rank, std::uint32_t node, const wire::Completion& completion) {
  const std::size_t op = completion.cookie;
  if (ranks_[rank].lost) return;
  if (op >= plan_.ops.size() || completion.tag != plan_.ops[op].tag ||
      completion.round != plan_.ops[op].round) {
    violated("a completion of what rank {} never announced", rank);
  }
  Posted& posted = ranks_[rank].ops[op];
  if (completion.part >= posted.parts.size())
    violated("{}: no such part", title(op, completion.part));
  Part& part = posted.parts[completion.part];
  world_.trace().write(world_.now(), "{} rank {}: {}, culprit {}", title(op, completion.part), rank,
                       status_name(completion.status), completion.culprit);
  if (part.ended) violated("{} ends twice at rank {}", title(op, completion.part), rank);
  if (parent_of(part.range.tree, rank) != node) violated("the wrong node answers");
  part.ended = true;
  judge(rank, op, completion.part, completion);
  if (completion.status != Status::kOk && plan_.takes_back) {
    take_back(rank, op, completion.culprit);
  }
}

void Ranks::cut_off(std::uint16_t rank, std::uint32_t node) {
  for (Posted& posted : ranks_[rank].ops) {
    for (Part& part : posted.parts) {
      if (parent_of(part.range.tree, rank) == node) part.ended = true;
    }
  }
}

bool Ranks::is_cut_off(std::uint32_t tree, std::uint16_t rank) const {
  for (const TreeVertex& vertex : plan_.trees[tree]) {
    const bool above = std::binary_search(vertex.below.begin(), vertex.below.end(), rank);
    if (above && world_.lost(vertex.node)) return true;
  }
  return false;
}

// All ranks are told the same, and the truth. Who is cut off from the root by a node that is no
// more is told that, whatever the others hear.
void Ranks::judge(std::uint16_t rank, std::size_t op, std::uint16_t part,
                  const wire::Completion& completion) {
  const protocol::Part& range = ranks_[rank].ops[op].parts[part].range;
  if (!deserved(op, completion)) {
    violated("{} ends at rank {} with \"{}\" by the fault of rank {} (witness {}, {} missing)",
             title(op, part), rank, status_name(completion.status), completion.culprit,
             completion.witness, completion.missing);
  }
  if (is_cut_off(range.tree, rank)) return;
  auto& verdict = judged_[{op, part}];
  if (!verdict) {
    verdict = completion;
    if (completion.status != Status::kOk) ++failures_;
    if (completion.status == Status::kOk) check_placed(op, part, range);
    return;
  }
  const bool same = verdict->status == completion.status &&
                    verdict->culprit == completion.culprit &&
                    verdict->witness == completion.witness && verdict->field == completion.field &&
                    verdict->missing == completion.missing && verdict->flags == completion.flags;
  // Of a broken job nothing is kept, also not who took what back before.
  const bool taken_back =
      verdict->status == Status::kCancelled || completion.status == Status::kCancelled;
  if (same || (taken_back && plan_.takes_back)) return;
  violated("{}: one rank is told \"{}\" by the fault of {}, rank {} \"{}\" by the fault of {}",
           title(op, part), status_name(verdict->status), verdict->culprit, rank,
           status_name(completion.status), completion.culprit);
}

bool Ranks::deserved(std::size_t op, const wire::Completion& completion) const {
  const Status status = completion.status;
  if (status == Status::kOk) return true;  // check_placed() asks whether all were there
  const bool faulty = plan_.ops[op].faulty;
  const bool victim = completion.culprit == plan_.victim;
  if (status == Status::kCancelled && plan_.takes_back && plan_.fault != Fault::kNothing)
    return true;
  switch (plan_.fault) {
    case Fault::kNothing:
      return false;
    case Fault::kRankLost:
      return befallen_ && status == Status::kPeerLost && victim;
    case Fault::kNodeLost:
      return befallen_ && status == Status::kPeerLost && completion.culprit == wire::kNoRank;
    case Fault::kAbsent:
      return faulty && status == Status::kDeadline && victim && completion.missing > 0;
    case Fault::kMismatch:
      return faulty && status == Status::kMismatch &&
             victim != (completion.witness == plan_.victim) &&
             completion.field == wire::Field::kOperation;
    case Fault::kCancel:
      return faulty && status == Status::kCancelled && victim;
    case Fault::kBadRegion:
      return faulty && status == Status::kBadRegion && victim;
  }
  return false;
}

const std::vector<std::byte>& Ranks::expected(std::size_t op, const protocol::Part& range) {
  std::vector<std::byte>& elements = expected_[{op, range.first}];
  if (!elements.empty() || range.count == 0) return elements;
  const protocol::Shape& shape = plan_.ops[op].shape;
  const std::uint64_t size = element_bytes(shape.type);
  std::vector<const std::byte*> inputs;
  for (const Rank& rank : ranks_) inputs.push_back(rank.ops[op].given.data());
  if (!protocol::moves_only(shape.kind)) {
    const std::uint32_t sums = plan_.plan.sum_tree(range.tree);
    const Tree& tree = plan_.trees[sums == protocol::kNoTree ? range.tree : sums];
    elements = fold_tree(tree, shape, inputs, range.first, range.count);
    return elements;
  }
  elements.resize(range.count * size);
  for (std::uint16_t rank = 0; rank < plan_.ranks; ++rank) {
    const protocol::Extent extent = contribution(shape, rank);
    const std::uint64_t first = std::max(extent.first, range.first);
    const std::uint64_t end = std::min(extent.first + extent.count, range.first + range.count);
    if (first >= end) continue;
    std::memcpy(elements.data() + (first - range.first) * size,
                inputs[rank] + (first - extent.first) * size, (end - first) * size);
  }
  return elements;
}

// The commit rule: when the first rank hears of success, the result stands at every receiver.
void Ranks::check_placed(std::size_t op, std::uint16_t part, const protocol::Part& range) {
  const protocol::Shape& shape = plan_.ops[op].shape;
  const std::uint64_t size = element_bytes(shape.type);
  const std::vector<std::byte>& elements = expected(op, range);
  for (std::uint16_t rank = 0; rank < plan_.ranks; ++rank) {
    const Posted& posted = ranks_[rank].ops[op];
    if (!posted.posted || shape_of(op, rank).operation != shape.operation) {
      violated("{} ends well, and rank {} has not announced it", title(op, part), rank);
    }
    const protocol::Extent extent = result(shape, rank);
    const std::uint64_t first = std::max(extent.first, range.first);
    const std::uint64_t end = std::min(extent.first + extent.count, range.first + range.count);
    if (first >= end) continue;
    const auto& memory = posted.notice.out_region == region(op, kIn) ? posted.in : posted.out;
    if (std::memcmp(memory.data() + (first - extent.first) * size,
                    elements.data() + (first - range.first) * size, (end - first) * size) != 0) {
      violated("{} ({} of {}): what stands at rank {} is not its result", title(op, part),
               wire::name(shape.kind), tally::name(shape.type), rank);
    }
    if ((posted.notice.flags & wire::kWantStats) != 0) check_stats(op, range, rank);
  }
}

void Ranks::check_stats(std::size_t op, const protocol::Part& range, std::uint16_t rank) {
  const ElementType type = plan_.ops[op].shape.type;
  std::vector<BlockStats> stats(stats_blocks(range.count));
  World::stats_of(type, range.count, expected(op, range).data(), stats);
  const std::byte* const given =
      ranks_[rank].ops[op].stats.data() + range.first / kStatsBlock * sizeof(BlockStats);
  if (std::memcmp(given, stats.data(), stats.size() * sizeof(BlockStats)) != 0) {
    violated("{}: wrong statistics at rank {}", title(op, 0), rank);
  }
}

bool Ranks::done() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.lost || std::all_of(rank.ops.begin(), rank.ops.end(), [](const Posted& posted) {
             return posted.skipped || posted.ended();
           });
  });
}

std::string Ranks::unfinished() const {
  std::string text;
  for (std::uint16_t rank = 0; rank < plan_.ranks; ++rank) {
    for (std::size_t op = 0; op < plan_.ops.size(); ++op) {
      const Posted& posted = ranks_[rank].ops[op];
      for (std::uint16_t part = 0; part < posted.parts.size(); ++part) {
        if (posted.parts[part].ended || ranks_[rank].lost) continue;
        text += fmt::format("\n    {} (tree {}) at rank {}", title(op, part),
                            posted.parts[part].range.tree, rank);
      }
    }
  }
  return text;
}

}  // namespace tally::sim::trees
