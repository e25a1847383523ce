#include "dataplane/protocol/aggregator.h"

#include <algorithm>

#include "base/block_stats.h"
#include "base/probes.h"
#include "dataplane/protocol/granules.h"
#include "dataplane/protocol/job.h"

namespace tally::protocol {
namespace {

constexpr std::uint64_t kMinTileBytes = 4 << 10;
constexpr std::uint64_t kMaxTileBytes = 256 << 10;
constexpr std::uint32_t kMaxTileFanIn = 32;
constexpr std::uint64_t kBlockStatsBytes = sizeof(BlockStats);
static_assert(kCutElements == kStatsBlock);

std::uint64_t pulled_bytes(const Tile& tile) {
  return tile.sources.size() * tile.count * element_bytes(tile.type);
}

std::uint64_t pushed_bytes(const Tile& tile) {
  return tile.landings.size() * tile.count * element_bytes(tile.type);
}

Shape shape_of(const wire::Notice& notice, std::uint16_t ranks) {
  return Shape{notice.kind, notice.type, notice.operation, notice.root, ranks, notice.count};
}

Operand operand_of(const wire::Notice& notice) {
  return Operand{notice.group, notice.tag, notice.type, notice.count};
}

// Of one input.
std::uint64_t tile_bytes(const AggregatorConfig& config, std::uint64_t window_bytes,
                         std::uint32_t ranks) {
  if (config.tile_bytes != 0) return config.tile_bytes;
  const std::uint64_t fan_in = std::min<std::uint64_t>(ranks, kMaxTileFanIn);
  return std::clamp(window_bytes / (2 * fan_in), kMinTileBytes, kMaxTileBytes);
}

}  // namespace

// A tile is at least one cut of the widest element.
std::uint64_t largest_tile(const AggregatorConfig& config, std::uint32_t ranks) {
  constexpr std::uint64_t kWidestElement = 8;
  return ranks *
         std::max(tile_bytes(config, config.window_bytes, ranks), kCutElements * kWidestElement);
}

Aggregator::Aggregator(AggregatorConfig config)
    : config_(std::move(config)),
      scheduler_({config_.window_bytes, config_.tiles}),
      grain_(config_.small) {}

Aggregator::~Aggregator() = default;

void Aggregator::add_job(JobSlot job, const JobSpec& spec) {
  if (job >= jobs_.size()) jobs_.resize(job + 1);
  JobSpec here = spec;
  if (here.plan.classes.empty()) {
    here.plan = config_.plan;
    if (here.vertices.empty()) here.vertices.push_back(star(config_.shard, spec.ranks));
  }
  here.window_bytes = std::min(spec.window_bytes, config_.window_bytes);
  scheduler_.add_job(job, spec.weight, spec.credit, here.window_bytes);
  jobs_[job] = std::make_unique<Job>(job, std::move(here));
  outbox_.reserve(outbox_.capacity() + std::size_t{spec.ranks} * 4);
}

void Aggregator::remove_job(JobSlot job) {
  scheduler_.remove_job(job);
  jobs_[job].reset();
}

bool Aggregator::busy(JobSlot job) const {
  return jobs_[job]->tiles > 0;
}

void Aggregator::join(JobSlot job, std::uint16_t rank, Member member) {
  if (member >= members_.size()) members_.resize(member + 1);
  members_[member] = MemberEntry{job, rank, true};
  jobs_[job]->ranks[rank].member = member;
}

std::uint32_t Aggregator::operations(JobSlot job) const {
  return jobs_[job]->table.size();
}

Aggregator::Job* Aggregator::job_of(Member member) {
  if (member >= members_.size() || !members_[member].joined) return nullptr;
  return jobs_[members_[member].job].get();
}

const Aggregator::Job* Aggregator::job_of(Member member) const {
  return const_cast<Aggregator*>(this)->job_of(member);
}

Aggregator::Extents Aggregator::extents(Member member, const wire::Notice& notice) const {
  Extents extents;
  const Job* job = job_of(member);
  if (job == nullptr) return extents;
  const std::uint16_t rank = members_[member].rank;
  const Shape shape = shape_of(notice, job->spec.ranks);
  const std::uint64_t size = element_bytes(notice.type);
  extents.in =
      Endpoint{member, notice.in_region, notice.in_offset, contribution(shape, rank).count * size};
  extents.out =
      Endpoint{member, notice.out_region, notice.out_offset, result(shape, rank).count * size};
  extents.side = Endpoint{member, notice.side_region, 0,
                          checksums_offset(notice.count, (notice.flags & wire::kWantStats) != 0)};
  if ((notice.flags & wire::kHasChecksums) != 0) extents.side.bytes += checksum_bytes(shape, rank);
  return extents;
}

// What can be judged of a notice alone, and to which vertex it comes; the rest is compared with the
// other ranks'.
Status Aggregator::check(const Job& job, const wire::Notice& notice, std::uint16_t& vertex) {
  if (notice.epoch != job.spec.epoch) return Status::kStaleEpoch;
  if (notice.group != 0) return Status::kUnsupported;
  if ((notice.flags & wire::kPartial) != 0) return Status::kInvalidArgument;
  if (notice.root >= job.spec.ranks) return Status::kInvalidArgument;
  const Operand operand = operand_of(notice);
  if (notice.part >= part_count(job.spec.plan, operand)) return Status::kInvalidArgument;
  vertex = job.vertex_in(cut(job.spec.plan, operand, notice.part).tree);
  return vertex != kNoVertex ? Status::kOk : Status::kInvalidArgument;
}

void Aggregator::announce(Member member, const wire::Notice& notice, Status admissible, Nanos now) {
  Job* job = job_of(member);
  if (job == nullptr) return;
  const std::uint16_t rank = members_[member].rank;
  RankState& state = job->ranks[rank];
  ++state.counters.notices;
  TALLY_PROBE(announce, job->slot, rank, notice.tag, notice.round, notice.part, notice.count);
  if (notice.kind == wire::Kind::kCancel) return cancel(*job, rank, notice, now);
  std::uint16_t vertex = kNoVertex;
  if (const Status status = check(*job, notice, vertex); status != Status::kOk) {
    return reply(member, notice, Verdict{.status = status, .culprit = rank}, 0);
  }
  if (state.outstanding >= job->spec.credit) {
    return reply(member, notice, Verdict{.status = Status::kNoCredit, .culprit = rank}, 0);
  }
  const OperationKey key{job->spec.vertices[vertex].tree, notice.group, notice.tag, notice.round};
  Slot slot = job->table.find(key);
  if (slot == kNone) {
    if (job->table.closed(key)) {
      return reply(member, notice, Verdict{.status = Status::kDuplicate, .culprit = rank}, 0);
    }
    if (job->broken.status != Status::kOk) return reply(member, notice, job->broken, 0);
    slot = open(*job, key, vertex, rank, notice, now);
  }
  if (!job->table.mark(slot, rank)) {
    return reply(member, notice, Verdict{.status = Status::kDuplicate, .culprit = rank}, 0);
  }
  state.has_last = true;
  state.last_tag = notice.tag;
  state.last_round = notice.round;
  OperationRecord& operation = job->table[slot];
  if (operation.state == OperationRecord::State::kFailed) {
    reply(member, notice, operation.verdict, now - operation.first_notice);
    if (operation.announced == operation.children) forget(*job, slot);
    return;
  }
  ++state.outstanding;
  shorten_deadline(*job, slot, deadline_of(notice, now));
  const bool wants_stats = (notice.flags & wire::kWantStats) != 0;
  operation.wants_stats |= wants_stats;
  operation.times.notice(rank, operation.first_notice, now);
  job->table.park(operation,
                  Announcement{notice.in_offset, notice.out_offset, member, notice.cookie,
                               notice.in_region, notice.out_region, notice.side_region, rank,
                               wants_stats, (notice.flags & wire::kHasChecksums) != 0, kNone});
  const Verdict disagreement =
      compare(operation.shape, operation.first_rank, shape_of(notice, job->spec.ranks), rank);
  if (disagreement.status != Status::kOk) return fail(*job, slot, disagreement, now);
  if (admissible != Status::kOk) {
    return fail(*job, slot, Verdict{.status = admissible, .culprit = rank}, now);
  }
  if (operation.announced == operation.children) become_ready(*job, slot, now);
}

Nanos Aggregator::deadline_of(const wire::Notice& notice, Nanos now) const {
  return now +
         (notice.deadline_ms != 0 ? notice.deadline_ms * kMillisecond : config_.default_deadline);
}

// Each rank's own time runs from its own notice; the first to run out decides for all.
void Aggregator::shorten_deadline(Job& job, Slot slot, Nanos deadline) {
  OperationRecord& operation = job.table[slot];
  if (deadline >= operation.deadline) return;
  operation.deadline = deadline;
  job.deadlines.remove(slot);
  job.deadlines.insert(slot, deadline);
}

Slot Aggregator::open(Job& job, const OperationKey& key, std::uint16_t vertex, std::uint16_t rank,
                      const wire::Notice& notice, Nanos now) {
  const auto children = static_cast<std::uint16_t>(job.spec.vertices[vertex].children());
  const Slot slot = job.table.create(key, children);
  OperationRecord& operation = job.table[slot];
  const Part part = cut(job.spec.plan, operand_of(notice), notice.part);
  operation.shape = shape_of(notice, job.spec.ranks);
  operation.first = operation.cursor = part.first;
  operation.end = part.first + part.count;
  operation.part = notice.part;
  operation.vertex = vertex;
  operation.priority = notice.priority;
  operation.first_rank = rank;
  operation.first_notice = now;
  operation.deadline = deadline_of(notice, now);
  job.deadlines.insert(slot, operation.deadline);
  return slot;
}

void Aggregator::become_ready(Job& job, Slot slot, Nanos now) {
  OperationRecord& operation = job.table[slot];
  job.table.order_by_rank(operation);
  operation.state = OperationRecord::State::kActive;
  operation.age = age_++;
  TALLY_PROBE(ready, job.slot, operation.key.tag, operation.key.round, operation.part,
              operation.times.last_rank,
              operation.times.last_notice - operation.times.previous_notice);
  if (operation.cursor == operation.end) return conclude(job, slot, now);
  const std::uint64_t bytes = traffic(operation.shape, operation.end - operation.cursor);
  grain_.ready(job.slot, bytes);
  backlog_ += bytes;
  operation.stream = backlog_ >= config_.stream_bytes;
  scheduler_.add(job.slot, slot, operation.priority, operation.age);
}

// Several tiles fit the window at staggered phases; more inputs, smaller tiles.
std::uint64_t Aggregator::tile_elements(const Job& job, const Shape& shape, bool fine) const {
  std::uint64_t bytes = tile_bytes(config_, job.spec.window_bytes, shape.ranks);
  if (fine) bytes = std::min(bytes, Grain::kFineTile / shape.ranks);
  const std::uint64_t elements = bytes / element_bytes(shape.type);
  return std::max(elements / kCutElements * kCutElements, kCutElements);
}

bool Aggregator::start_tile(Tile& tile) {
  const auto choice = scheduler_.next();
  if (!choice) return false;
  Job& job = *jobs_[choice->job];
  OperationRecord& operation = job.table[choice->operation];
  const Stretch stretch = stretch_at(operation.shape, operation.cursor);
  tile.fine = grain_.fine(choice->job);
  // Where a share of a reduce-scatter begins within a block, its first tile ends with the block.
  const std::uint64_t block = operation.cursor / kCutElements * kCutElements;
  const std::uint64_t end = std::min(
      {block + tile_elements(job, operation.shape, tile.fine), stretch.end, operation.end});
  tile.job = choice->job;
  tile.operation = choice->operation;
  tile.type = operation.shape.type;
  tile.reduction = operation.shape.operation;
  tile.divisor = operation.shape.ranks;
  tile.first = operation.cursor;
  tile.count = end - operation.cursor;
  tile.operation_bytes = operation.shape.count * element_bytes(operation.shape.type);
  tile.stream = operation.stream || backlog_ >= config_.stream_bytes;
  fill_endpoints(job, operation, stretch, tile);
  if (moves_only(operation.shape.kind)) {
    tile.count *= element_bytes(tile.type);
    tile.type = ElementType::kU8;
    tile.reduction = Operation::kSum;  // of one input: the input
  }
  backlog_ -= traffic(operation.shape, end - operation.cursor);
  operation.cursor = end;
  ++operation.tiles_in_flight;
  ++job.tiles;
  if (operation.cursor == operation.end) scheduler_.remove(choice->job, choice->operation);
  tile.summed = false;
  scheduler_.started(choice->job, pulled_bytes(tile));
  grain_.started(pulled_bytes(tile));
  return true;
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

void Aggregator::fill_endpoints(const Job& job, const OperationRecord& operation,
                                const Stretch& stretch, Tile& tile) const {
  const Shape& shape = operation.shape;
  const std::uint64_t size = element_bytes(shape.type);
  const std::uint64_t bytes = tile.count * size;
  tile.sources.clear();
  tile.checksums.clear();
  tile.landings.clear();
  tile.stats_landings.clear();
  tile.members.clear();
  for (Slot s = operation.announcements; s != kNone; s = job.table.announcement(s).next) {
    const Announcement& a = job.table.announcement(s);
    const bool contributes = stretch.contributors.has(a.rank);
    const bool receives = stretch.receivers.has(a.rank);
    if (contributes || receives) tile.members.push_back(a.member);
    Endpoint source{a.member, a.in_region, 0, bytes, a.cookie};
    Endpoint landing{a.member, a.out_region, 0, bytes, a.cookie};
    if (contributes) {
      source.offset = a.in_offset + (tile.first - contribution(shape, a.rank).first) * size;
      if (a.has_checksums) add_checksums(shape, a, tile);
      tile.sources.push_back(source);
    }
    if (receives) {
      landing.offset = a.out_offset + (tile.first - result(shape, a.rank).first) * size;
      // A rank that only gives away what it has, in place, has its result already.
      const bool stands = moves_only(shape.kind) && contributes &&
                          landing.region == source.region && landing.offset == source.offset;
      if (!stands) tile.landings.push_back(landing);
    }
    if (a.wants_stats && receives) {
      tile.stats_landings.push_back(
          Endpoint{a.member, a.side_region, tile.first / kCutElements * kBlockStatsBytes,
                   stats_blocks(tile.count) * kBlockStatsBytes, a.cookie});
    }
  }
}

bool Aggregator::wanted(const Tile& tile) const {
  return jobs_[tile.job]->table[tile.operation].state == OperationRecord::State::kActive;
}

void Aggregator::damaged(Member member) {
  if (Job* job = job_of(member)) ++job->ranks[members_[member].rank].counters.damaged;
}

void Aggregator::pulling(const Tile& tile, Nanos now) {
  OperationRecord& operation = jobs_[tile.job]->table[tile.operation];
  operation.times.pull(tile.first == operation.first, now, busy_);
  TALLY_PROBE(pull, tile.job, operation.key.tag, operation.key.round, tile.first,
              pulled_bytes(tile));
}

void Aggregator::storing(Tile& tile, Nanos now) {
  tile.summed = true;
  scheduler_.pulled(tile.job, pulled_bytes(tile));
  scheduler_.pushing(tile.job, pushed_bytes(tile));
  OperationRecord& operation = jobs_[tile.job]->table[tile.operation];
  operation.started = true;
  operation.times.sum(now, busy_);
  TALLY_PROBE(sum, tile.job, operation.key.tag, operation.key.round, tile.first, tile.count);
}

void Aggregator::stored(const Tile& tile, Nanos now) {
  OperationRecord& operation = jobs_[tile.job]->table[tile.operation];
  busy_ += operation.times.push(now);
  TALLY_PROBE(push, tile.job, operation.key.tag, operation.key.round, tile.first, tile.count);
}

void Aggregator::end_tile(const Tile& tile, Status status, Member culprit, Nanos now) {
  if (tile.summed) {
    scheduler_.pushed(tile.job, pushed_bytes(tile));
  } else {
    scheduler_.pulled(tile.job, pulled_bytes(tile));
  }
  scheduler_.finished(tile.job);
  Job& job = *jobs_[tile.job];
  OperationRecord& operation = job.table[tile.operation];
  --operation.tiles_in_flight;
  --job.tiles;
  const bool active = operation.state == OperationRecord::State::kActive;
  if (active && status != Status::kOk) {
    Verdict verdict{.status = status};
    if (culprit < members_.size()) verdict.culprit = members_[culprit].rank;
    return fail(job, tile.operation, verdict, now);
  }
  if (active) operation.times.placed(now, busy_);
  const bool finished = !active || operation.cursor == operation.end;
  if (finished && operation.tiles_in_flight == 0) conclude(job, tile.operation, now);
}

}  // namespace tally::protocol
