#include "dataplane/protocol/tiles/tiles.h"

#include <algorithm>

#include "base/probes.h"
#include "dataplane/partition/groups.h"
#include "dataplane/protocol/tiles/cutting.h"

namespace tally::protocol {
namespace {

constexpr RankSet kNobody{false, wire::kNoRank};

constexpr std::uint64_t kLandingPage = 4 << 10;

std::uint32_t ranks_of(const Tile& tile, const Group& group) {
  return std::min(group.end, tile.ranks()) - group.begin;
}

std::uint32_t partials_of(const Tile& tile, const Group& group) {
  return group.end - group.begin - ranks_of(tile, group);
}

// Partial sums may be wider than elements.
std::uint64_t pulled_bytes(const Tile& tile, const Group& group) {
  return tile.count * (ranks_of(tile, group) * element_bytes(tile.type) +
                       partials_of(tile, group) * element_bytes(tile.partial_type));
}

// Returns what the group takes of the window until it has been added up. This counts also inputs
// that have come, and partial sums that child nodes have yet to make. A transport that lands inputs
// holds room for the first ones all that time, and must have it for the others. A group that waits
// for child nodes counts in whole pages, because inputs land in pages. Otherwise many small tiles
// would hold the room that tiles of lower heights need.
std::uint64_t landing_bytes(const Tile& tile) {
  const std::uint32_t partials = partials_of(tile, tile.group);
  if (partials == 0) return pulled_bytes(tile, tile.group);
  const auto pages = [&](ElementType type) {
    return (tile.count * element_bytes(type) + kLandingPage - 1) / kLandingPage * kLandingPage;
  };
  return ranks_of(tile, tile.group) * pages(tile.type) + partials * pages(tile.partial_type);
}

// A tile pushes to several receivers at a time, and to child nodes.
std::uint64_t pushed_bytes(const Tile& tile) {
  return (receivers_at_once(tile.landings.size()) + tile.below.size()) * tile.count *
         element_bytes(tile.type);
}

}  // namespace

void Tiles::release(Nanos now) {
  pacer_.reach(now);
  pacer_.release([this](JobId id, std::uint32_t, const TileScheduler::Ready& ready) {
    const Job& job = jobs_[id];
    const TileClass cls = job.position(job.table[ready.operation]).cls;
    scheduler_.add(id, cls, ready.operation, ready.priority, ready.age);
  });
}

// Holds the operations whose roots are not due.
std::optional<TileScheduler::Choice> Tiles::next_choice() {
  for (;;) {
    const auto choice = scheduler_.next();
    if (!choice) return std::nullopt;
    const Job& job = jobs_[choice->job];
    const OperationRecord& operation = job.table[choice->operation];
    if (pacer_.is_due(choice->job, operation.vertex)) return choice;
    pacer_.hold(choice->job, operation.vertex,
                {operation.priority, operation.age, choice->operation});
    scheduler_.remove(choice->job, job.position(operation).cls, choice->operation);
  }
}

bool Tiles::start_tile(Tile& tile) {
  const auto choice = next_choice();
  if (!choice) return false;
  Job& job = jobs_[choice->job];
  OperationRecord& operation = job.table[choice->operation];
  const bool root = job.vertex(operation).is_root();
  tile.fine = sizing_.fine(choice->job);
  if (root) {
    cut_tile(job, choice->operation, tile);
  } else {
    start_requested(job, choice->operation, tile);
  }
  const std::uint64_t elements = tile.count;
  if (moves_only(operation.shape.kind)) move_bytes(tile);
  tile.stream = operation.stream || backlog_.streams();
  backlog_.remove(traffic(operation.shape, elements));
  ++operation.tiles_in_flight;
  ++job.tiles;
  const TileClass cls = job.position(operation).cls;
  const bool last = root ? operation.cursor == operation.end : operation.first_wanted == kNone;
  if (last) scheduler_.remove(choice->job, cls, choice->operation);
  scheduler_.started(choice->job, cls);
  pull_group(tile, 0);
  return true;
}

// The root cuts the operation's next tile.
void Tiles::cut_tile(Job& job, PoolIndex index, Tile& tile) {
  OperationRecord& operation = job.table[index];
  const Stretch stretch = stretch_at(operation.shape, operation.cursor);
  const std::uint64_t allowance = scheduler_.allowance(job.id, job.position(operation).cls);
  const std::uint64_t most = tile_elements(config_, job, operation, allowance, tile.fine);
  // A share of a reduce-scatter may begin within a block. Then its first tile ends with the block.
  const std::uint64_t block = operation.cursor / kCutElements * kCutElements;
  const std::uint64_t end = std::min({block + most, stretch.end, operation.end});
  begin_tile(job, index, operation.cursor, end - operation.cursor, tile);
  operation.cursor = end;
  add_ranks(job, operation, stretch, true, tile);
  const OperationRecord& results = job.table[job.results_of(index)];
  if (&results != &operation) add_ranks(job, results, stretch, false, tile);
  if (!job.has_child_nodes(operation.vertex)) return;
  children_.request(job, operation, stretch, tile);
  ChildNodes::add_below(job, results, stretch, tile);
}

// Any other vertex sums the next tile that its parent has requested.
void Tiles::start_requested(Job& job, PoolIndex index, Tile& tile) {
  OperationRecord& operation = job.table[index];
  const ParentNodes::Request request = ParentNodes::take_request(job, operation);
  Stretch stretch = stretch_at(operation.shape, request.first);
  stretch.receivers = kNobody;
  begin_tile(job, index, request.first, request.count, tile);
  tile.partial = true;
  tile.own = request.own;
  if (tile.reduction == Operation::kAverage) tile.reduction = Operation::kSum;
  tile.divisor = 1;
  add_ranks(job, operation, stretch, true, tile);
  if (!job.vertex(operation).child_nodes.empty()) {
    children_.request(job, operation, stretch, tile);
  }
}

bool Tiles::start_down(Tile& tile) {
  if (!parents_.has_results()) return false;
  const ParentNodes::Result result = parents_.take_result();
  Job& job = jobs_[result.job];
  ParentBuffers& parent = job.parents[result.parent];
  ParentBuffers::Down& down = parent.down[result.buffer];
  const OperationRecord& operation = job.table[down.operation];
  const Stretch stretch = stretch_at(operation.shape, down.result.first);
  begin_tile(job, down.operation, down.result.first, down.result.count, tile);
  tile.own = OwnBuffer{parent.parent_id, result.buffer};
  tile.fine = false;
  tile.stream = operation.stream;
  add_ranks(job, operation, stretch, false, tile);
  ChildNodes::add_below(job, operation, stretch, tile);
  if (moves_only(operation.shape.kind)) move_bytes(tile);
  if (!wanted(tile)) tile.below.clear();
  for (std::uint32_t i = 0; i < tile.below.size(); ++i) {
    ++down.pending;
    children_.hand_down(job, tile, i, result.parent, result.buffer);
  }
  return true;
}

bool Tiles::wanted(const Tile& tile) const {
  return jobs_[tile.job].table[tile.operation].state == OperationRecord::State::kActive;
}

void Tiles::damaged(SessionId member) {
  if (const auto [job, child] = jobs_.child(member); job != nullptr) {
    ++job->members[child].counters.damaged;
  }
}

void Tiles::pulling(const Tile& tile, Nanos now) {
  OperationRecord& operation = jobs_[tile.job].table[tile.operation];
  operation.times.pull(tile.first == operation.first, now, busy_);
  pacer_.started(tile.job, operation.vertex, tile.count * element_bytes(tile.type));
  TALLY_PROBE(pull, tile.job, operation.key.tag, operation.key.round, tile.first,
              pulled_bytes(tile, {0, static_cast<std::uint32_t>(tile.sources.size())}));
}

void Tiles::passed_down(Tile& tile, std::uint32_t index) {
  children_.passed_down(jobs_[tile.job], tile, index);
}

TileClass Tiles::class_of(const Tile& tile) const {
  const Job& job = jobs_[tile.job];
  return job.position(job.table[tile.operation]).cls;
}

void Tiles::pull_group(Tile& tile, std::uint32_t begin) {
  tile.group = group_from(begin, tile.ranks(), tile.partials);
  scheduler_.pulling(tile.job, class_of(tile), landing_bytes(tile));
  sizing_.started(pulled_bytes(tile, tile.group));
}

void Tiles::next_group(Tile& tile, Nanos began, Nanos now) {
  OperationRecord& operation = jobs_[tile.job].table[tile.operation];
  busy_ += operation.times.add_up(began, now, busy_);
  scheduler_.pulled(tile.job, class_of(tile), landing_bytes(tile), now);
  pull_group(tile, tile.group.end);
}

void Tiles::storing(Tile& tile, Nanos now) {
  OperationRecord& operation = jobs_[tile.job].table[tile.operation];
  tile.phase = Tile::Phase::kSummed;
  scheduler_.pulled(tile.job, class_of(tile), landing_bytes(tile), now);
  operation.started = true;
  operation.times.sum(now, busy_);
  TALLY_PROBE(sum, tile.job, operation.key.tag, operation.key.round, tile.first, tile.count);
}

void Tiles::stored(const Tile& tile, Nanos now) {
  OperationRecord& operation = jobs_[tile.job].table[tile.operation];
  busy_ += operation.times.push(now);
  TALLY_PROBE(push, tile.job, operation.key.tag, operation.key.round, tile.first, tile.count);
  for (std::uint32_t i = 0; i < tile.below.size(); ++i) {
    children_.hand_down(jobs_[tile.job], tile, i, kNoParent, kNone);
  }
}

bool Tiles::start_pushing(Tile& tile, Nanos now) {
  const TileClass cls = class_of(tile);
  if (!scheduler_.may_push(tile.job, cls)) {
    if (tile.phase == Tile::Phase::kSummed) scheduler_.keep_back(tile.job, cls, pushed_bytes(tile));
    tile.phase = Tile::Phase::kKeptBack;
    return false;
  }
  if (tile.phase == Tile::Phase::kKeptBack) scheduler_.let_go(tile.job, cls, pushed_bytes(tile));
  tile.phase = Tile::Phase::kPushing;
  scheduler_.pushing(tile.job, cls, pushed_bytes(tile), now);
  return true;
}

// The bytes of the tile are no longer in flight.
void Tiles::leave_window(const Tile& tile, Nanos now) {
  const TileClass cls = class_of(tile);
  switch (tile.phase) {
    case Tile::Phase::kPulling:
      scheduler_.pulled(tile.job, cls, landing_bytes(tile), now);
      break;
    case Tile::Phase::kSummed:
      break;
    case Tile::Phase::kKeptBack:
      scheduler_.let_go(tile.job, cls, pushed_bytes(tile));
      break;
    case Tile::Phase::kPushing:
      scheduler_.pushed(tile.job, cls, pushed_bytes(tile), now);
      break;
  }
  scheduler_.finished(tile.job, cls);
}

void Tiles::end_tile(const Tile& tile, Status status, SessionId culprit, Nanos now) {
  Job& job = jobs_[tile.job];
  OperationRecord& operation = job.table[tile.operation];
  leave_window(tile, now);
  pacer_.ended(tile.job, operation.vertex);
  if (tile.partials > 0) ChildNodes::release_up(job, tile);
  if (status != Status::kOk) children_.release_down(job, tile);
  const bool active = operation.state == OperationRecord::State::kActive;
  if (active && status == Status::kOk) operation.times.placed(now, busy_);
  ended(job, tile, status, culprit, now);
}

void Tiles::end_down(const Tile& tile, Status status, SessionId culprit, Nanos now) {
  Job& job = jobs_[tile.job];
  if (status != Status::kOk) children_.release_down(job, tile);
  const std::uint32_t parent = job.vertex(job.table[tile.operation]).parent;
  ended(job, tile, status, culprit, now);
  parents_.placed(job, parent, tile.own.index);
}

// A failure is reported before the tile's request is answered. A tile that is answered is no longer
// in flight.
void Tiles::ended(Job& job, const Tile& tile, Status status, SessionId culprit, Nanos now) {
  OperationRecord& operation = job.table[tile.operation];
  --operation.tiles_in_flight;
  --job.tiles;
  const std::uint32_t parent = job.vertex(operation).parent;
  const bool active = operation.state == OperationRecord::State::kActive;
  if (active && status != Status::kOk) {
    const auto child = jobs_.number_of(culprit);
    const Verdict verdict = child ? job.loss_of(*child, status) : Verdict{.status = status};
    verdicts_.fail(job, tile.operation, verdict, now);
  } else {
    verdicts_.conclude_if_over(job, tile.operation, now);
  }
  if (tile.partial) parents_.answer(job, parent, tile.own.index, active && status == Status::kOk);
}

}  // namespace tally::protocol
