// Tiles: how they are cut, what they read and store, and how they end.
#include <algorithm>

#include "base/block_stats.h"
#include "base/probes.h"
#include "dataplane/protocol/aggregator.h"
#include "dataplane/protocol/granules.h"
#include "dataplane/protocol/job.h"

namespace tally::protocol {
namespace {

constexpr std::uint64_t kMinTileBytes = 4 << 10;
constexpr std::uint64_t kMaxTileBytes = 256 << 10;
constexpr std::uint32_t kMaxTileFanIn = 32;
constexpr std::uint64_t kLandingPage = 4 << 10;
constexpr std::uint64_t kBlockStatsBytes = sizeof(BlockStats);
static_assert(kCutElements == kStatsBlock);

constexpr RankSet kNobody{false, wire::kNoRank};

// Partial sums may be wider than elements. All are counted from the tile's start until its sum
// begins, also those that have come, and partial sums that branches have yet to make: a transport
// that lands inputs holds room for the first all that time, and is to have it for the others.
std::uint64_t pulled_bytes(const Tile& tile) {
  const std::uint64_t ranks = tile.sources.size() - tile.partials;
  return tile.count *
         (ranks * element_bytes(tile.type) + tile.partials * element_bytes(tile.partial_type));
}

// As the window counts them. Those of a tile that waits for branches in whole pages, as which they
// land: else many small tiles would hold the room that tiles of lower heights need.
std::uint64_t landing_bytes(const Tile& tile) {
  if (tile.partials == 0) return pulled_bytes(tile);
  const auto pages = [&](ElementType type) {
    return (tile.count * element_bytes(type) + kLandingPage - 1) / kLandingPage * kLandingPage;
  };
  const std::uint64_t ranks = tile.sources.size() - tile.partials;
  return ranks * pages(tile.type) + tile.partials * pages(tile.partial_type);
}

std::uint64_t pushed_bytes(const Tile& tile) {
  return (tile.landings.size() + tile.below.size()) * tile.count * element_bytes(tile.type);
}

// Of one input.
std::uint64_t tile_bytes(const AggregatorConfig& config, std::uint64_t window_bytes,
                         std::uint32_t inputs) {
  if (config.tile_bytes != 0) return config.tile_bytes;
  const std::uint64_t fan_in = std::min<std::uint64_t>(inputs, kMaxTileFanIn);
  return std::clamp(window_bytes / (2 * fan_in), kMinTileBytes, kMaxTileBytes);
}

}  // namespace

// A tile is at least one cut of the widest element.
std::uint64_t largest_tile(const AggregatorConfig& config, std::uint32_t ranks) {
  constexpr std::uint64_t kWidestElement = 8;
  return ranks *
         std::max(tile_bytes(config, config.window_bytes, ranks), kCutElements * kWidestElement);
}

// Several tiles fit the window at staggered phases; more inputs, smaller tiles. Between vertices a
// tile fits a slot, as a partial sum too: so it is not too large for any of them (SlotLayout).
std::uint64_t Aggregator::tile_elements(const Job& job, const OperationRecord& operation,
                                        bool fine) const {
  const Shape& shape = operation.shape;
  std::uint64_t bytes = tile_bytes(config_, job.spec.window_bytes, operation.children);
  if (fine) bytes = std::min(bytes, Grain::kFineTile / operation.children);
  std::uint64_t elements = bytes / element_bytes(shape.type);
  if (!job.vertex(operation).branches.empty()) {
    elements = std::min(elements, job.spec.slots.bytes / element_bytes(partial_type(shape)));
  }
  return std::max(elements / kCutElements * kCutElements, kCutElements);
}

// What all tiles have alike; their sources and landings are filled in by those who call it.
void Aggregator::begin(const Job& job, Slot slot, std::uint64_t first, std::uint64_t count,
                       Tile& tile) {
  const OperationRecord& operation = job.table[slot];
  tile.job = job.slot;
  tile.operation = slot;
  tile.type = operation.shape.type;
  tile.reduction = operation.shape.operation;
  tile.divisor = operation.shape.ranks;
  tile.first = first;
  tile.count = count;
  tile.operation_bytes = operation.shape.count * element_bytes(operation.shape.type);
  tile.summed = false;
  tile.partials = 0;
  tile.partial = false;
  tile.sources.clear();
  tile.checksums.clear();
  tile.landings.clear();
  tile.stats_landings.clear();
  tile.below.clear();
  tile.members.clear();
}

// Once everything else of the tile is there.
void Aggregator::move_bytes(Tile& tile) {
  tile.count *= element_bytes(tile.type);
  tile.type = tile.partial_type = ElementType::kU8;
  tile.reduction = Operation::kSum;  // of one input: the input
}

bool Aggregator::start_tile(Tile& tile) {
  const auto choice = scheduler_.next();
  if (!choice) return false;
  Job& job = *jobs_[choice->job];
  OperationRecord& operation = job.table[choice->operation];
  const Vertex& vertex = job.vertex(operation);
  tile.fine = grain_.fine(choice->job);
  std::uint64_t end = 0;
  if (vertex.is_root()) {
    Stretch stretch = stretch_at(operation.shape, operation.cursor);
    // Where a share of a reduce-scatter begins within a block, its first tile ends with the block.
    const std::uint64_t block = operation.cursor / kCutElements * kCutElements;
    end = std::min({block + tile_elements(job, operation, tile.fine), stretch.end, operation.end});
    begin(job, choice->operation, operation.cursor, end - operation.cursor, tile);
    operation.cursor = end;
    fill_endpoints(job, operation, stretch, tile);
    if (!vertex.branches.empty()) {
      ask_branches(job, operation, stretch, tile);
      add_below(job, operation, stretch, tile);
    }
  } else {
    end = start_wanted(job, choice->operation, tile);
  }
  if (moves_only(operation.shape.kind)) move_bytes(tile);
  tile.stream = operation.stream || backlog_ >= config_.stream_bytes;
  backlog_ -= traffic(operation.shape, end - tile.first);
  ++operation.tiles_in_flight;
  ++job.tiles;
  const TileClass cls = job.place(operation).cls;
  const bool last =
      vertex.is_root() ? operation.cursor == operation.end : operation.first_wanted == kNone;
  if (last) scheduler_.remove(choice->job, cls, choice->operation);
  scheduler_.started(choice->job, cls, landing_bytes(tile));
  grain_.started(pulled_bytes(tile));
  return true;
}

// The next one that the vertex above wants; gives where it ends.
std::uint64_t Aggregator::start_wanted(Job& job, Slot slot, Tile& tile) {
  OperationRecord& operation = job.table[slot];
  const Vertex& vertex = job.vertex(operation);
  const ParentSlots& parent = job.parents[vertex.parent];
  const std::uint32_t own = operation.first_wanted;
  const wire::VertexMessage& wanted = parent.up[own].wanted;
  operation.first_wanted = parent.up[own].next;
  if (operation.first_wanted == kNone) operation.last_wanted = kNone;
  Stretch stretch = stretch_at(operation.shape, wanted.first);
  stretch.receivers = kNobody;
  begin(job, slot, wanted.first, wanted.count, tile);
  tile.partial = true;
  tile.partial_type = partial_type(operation.shape);
  tile.own = OwnSlot{parent.link, own};
  if (tile.reduction == Operation::kAverage) tile.reduction = Operation::kSum;
  tile.divisor = 1;
  fill_endpoints(job, operation, stretch, tile);
  if (!vertex.branches.empty()) ask_branches(job, operation, stretch, tile);
  return wanted.first + wanted.count;
}

// Of what the tile's next source will be.
void Aggregator::add_checksums(const Shape& shape, const Announcement& a, Tile& tile) {
  const Granules granules = granules_of(shape, a.rank, {tile.first, tile.count});
  const std::uint64_t offset =
      checksums_offset(shape.count, a.wants_stats) + granules.first * sizeof(Checksum);
  tile.checksums.push_back({tile.sources.size(), Endpoint{a.member, a.side_region, offset,
                                                          granules.count * sizeof(Checksum)}});
  tile.lead = granules.lead;  // the same for all ranks: they count from the operation's beginning
}

// A rank's result, and its statistics.
void Aggregator::add_landing(const Shape& shape, const Stretch& stretch, const Announcement& a,
                             Tile& tile) {
  const std::uint64_t size = element_bytes(shape.type);
  const std::uint64_t offset = a.out_offset + (tile.first - result(shape, a.rank).first) * size;
  // A rank that only gives away what it has, in place, has its result already.
  const bool stands =
      moves_only(shape.kind) && stretch.contributors.has(a.rank) && a.out_region == a.in_region &&
      offset == a.in_offset + (tile.first - contribution(shape, a.rank).first) * size;
  if (!stands) {
    tile.landings.push_back(Endpoint{a.member, a.out_region, offset, tile.count * size, a.cookie});
  }
  if (a.wants_stats) {
    tile.stats_landings.push_back(Endpoint{a.member, a.side_region,
                                           tile.first / kCutElements * kBlockStatsBytes,
                                           stats_blocks(tile.count) * kBlockStatsBytes, a.cookie});
  }
}

// Of the ranks among the vertex's children: they come before the branches.
void Aggregator::fill_endpoints(const Job& job, const OperationRecord& operation,
                                const Stretch& stretch, Tile& tile) {
  const Shape& shape = operation.shape;
  const std::uint64_t size = element_bytes(shape.type);
  for (Slot s = operation.announcements; s != kNone; s = job.table.announcement(s).next) {
    const Announcement& a = job.table.announcement(s);
    if (job.is_branch(a.rank)) break;
    const bool contributes = stretch.contributors.has(a.rank);
    const bool receives = stretch.receivers.has(a.rank);
    if (contributes || receives) tile.members.push_back(a.member);
    if (contributes) {
      if (a.has_checksums) add_checksums(shape, a, tile);
      const std::uint64_t offset =
          a.in_offset + (tile.first - contribution(shape, a.rank).first) * size;
      tile.sources.push_back(Endpoint{a.member, a.in_region, offset, tile.count * size, a.cookie});
    }
    if (receives) add_landing(shape, stretch, a, tile);
  }
}

// What the vertex above has handed down.
bool Aggregator::start_down(Tile& tile) {
  if (next_down_ == downs_.size()) return false;
  const DownEntry entry = downs_[next_down_++];
  if (next_down_ == downs_.size()) downs_.clear(), next_down_ = 0;
  Job& job = *jobs_[entry.job];
  ParentSlots& parent = job.parents[entry.parent];
  const ParentSlots::Down& down = parent.down[entry.slot];
  const OperationRecord& operation = job.table[down.operation];
  Stretch stretch = stretch_at(operation.shape, down.result.first);
  begin(job, down.operation, down.result.first, down.result.count, tile);
  tile.own = OwnSlot{parent.link, entry.slot};
  tile.fine = false;
  tile.stream = operation.stream;
  for (Slot s = operation.announcements; s != kNone; s = job.table.announcement(s).next) {
    const Announcement& a = job.table.announcement(s);
    if (job.is_branch(a.rank)) break;
    if (!stretch.receivers.has(a.rank)) continue;
    tile.members.push_back(a.member);
    add_landing(operation.shape, stretch, a, tile);
  }
  add_below(job, operation, stretch, tile);
  if (moves_only(operation.shape.kind)) move_bytes(tile);
  if (!wanted(tile)) tile.below.clear();
  for (std::uint32_t i = 0; i < tile.below.size(); ++i) {
    ++parent.down[entry.slot].pending;
    hand_down(job, tile, i, entry.parent, entry.slot);
  }
  return true;
}

bool Aggregator::wanted(const Tile& tile) const {
  return jobs_[tile.job]->table[tile.operation].state == OperationRecord::State::kActive;
}

void Aggregator::damaged(Member member) {
  if (Job* job = job_of(member)) ++job->members[members_[member].rank].counters.damaged;
}

void Aggregator::pulling(const Tile& tile, Nanos now) {
  OperationRecord& operation = jobs_[tile.job]->table[tile.operation];
  operation.times.pull(tile.first == operation.first, now, busy_);
  TALLY_PROBE(pull, tile.job, operation.key.tag, operation.key.round, tile.first,
              pulled_bytes(tile));
}

void Aggregator::storing(Tile& tile, Nanos now) {
  Job& job = *jobs_[tile.job];
  OperationRecord& operation = job.table[tile.operation];
  const TileClass cls = job.place(operation).cls;
  tile.summed = true;
  scheduler_.pulled(tile.job, cls, landing_bytes(tile));
  scheduler_.pushing(tile.job, cls, pushed_bytes(tile));
  operation.started = true;
  operation.times.sum(now, busy_);
  TALLY_PROBE(sum, tile.job, operation.key.tag, operation.key.round, tile.first, tile.count);
}

void Aggregator::stored(const Tile& tile, Nanos now) {
  OperationRecord& operation = jobs_[tile.job]->table[tile.operation];
  busy_ += operation.times.push(now);
  TALLY_PROBE(push, tile.job, operation.key.tag, operation.key.round, tile.first, tile.count);
  for (std::uint32_t i = 0; i < tile.below.size(); ++i) {
    hand_down(*jobs_[tile.job], tile, i, kNoParent, kNone);
  }
}

void Aggregator::end_tile(const Tile& tile, Status status, Member culprit, Nanos now) {
  Job& job = *jobs_[tile.job];
  OperationRecord& operation = job.table[tile.operation];
  const TileClass cls = job.place(operation).cls;
  if (tile.summed) {
    scheduler_.pushed(tile.job, cls, pushed_bytes(tile));
  } else {
    scheduler_.pulled(tile.job, cls, landing_bytes(tile));
  }
  scheduler_.finished(tile.job, cls);
  if (tile.partials > 0) give_back_up(job, tile);
  if (status != Status::kOk) give_back_down(job, tile);
  const bool active = operation.state == OperationRecord::State::kActive;
  if (active && status == Status::kOk) operation.times.placed(now, busy_);
  ended(job, tile, status, culprit, now);
}

void Aggregator::end_down(const Tile& tile, Status status, Member culprit, Nanos now) {
  Job& job = *jobs_[tile.job];
  if (status != Status::kOk) give_back_down(job, tile);
  const std::uint32_t parent = job.vertex(job.table[tile.operation]).parent;
  ended(job, tile, status, culprit, now);
  placed_below(job, parent, tile.own.slot);
}

// In this order: a failure is reported before the tile's request is answered; what is answered was
// in flight no more.
void Aggregator::ended(Job& job, const Tile& tile, Status status, Member culprit, Nanos now) {
  OperationRecord& operation = job.table[tile.operation];
  --operation.tiles_in_flight;
  --job.tiles;
  const std::uint32_t parent = job.vertex(operation).parent;
  const bool active = operation.state == OperationRecord::State::kActive;
  if (active && status != Status::kOk) {
    Verdict verdict{.status = status};
    if (culprit < members_.size()) verdict = loss_of(job, members_[culprit].rank, status);
    fail(job, tile.operation, verdict, now);
  } else {
    conclude_if_over(job, tile.operation, now);
  }
  if (tile.partial) answer_wanted(job, parent, tile.own.slot, active && status == Status::kOk);
}

}  // namespace tally::protocol
