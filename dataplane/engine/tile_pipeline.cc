#include "dataplane/engine/tile_pipeline.h"

#include "base/debug_steps.h"

namespace tally::engine {
namespace {

// How often the shard pulls damaged inputs again. More damage than that is no accident.
constexpr std::uint8_t kMostRepeats = 3;

}  // namespace

TilePipeline::TilePipeline(const ShardConfig& config, transport::Transport& transport,
                           protocol::Aggregator& protocol, const ParentConnections& parents,
                           ShardCounters& counters, CycleClock& clock)
    : transport_(transport),
      protocol_(protocol),
      parents_(parents),
      counters_(counters),
      clock_(clock),
      pool_(protocol::most_tiles(config.protocol), config.memory),
      pulls_(transport, pool_, config.protocol.shard, config.max_ranks),
      reducer_(config.kernels, config.crc32c, config.max_ranks),
      pushes_(transport, pool_, counters.bytes_out, config.max_ranks) {
  kept_back_.reserve(pool_.records().size());
  continued_.reserve(kBurst);
  members_.reserve(protocol::kGroupSources);
}

std::size_t TilePipeline::start_tiles() {
  std::size_t started = 0;
  std::uint64_t pulled = 0;
  bool fine = false;
  if (!tiles().has_ready() && !tiles().has_held()) return 0;
  const Nanos now = clock_.now();  // one reading for all tiles of the turn
  tiles().release(now);
  for (; pulled < kTurnBytes && !fine && tiles().has_ready(); ++started) {
    TileRecord* record = pool_.next_up();
    if (record == nullptr || !tiles().start_tile(record->tile)) break;
    tiles().pulling(record->tile, now);
    pool_.take(*record);
    debug_step(DebugStep::kNodeReady);
    TilePulls::begin(*record);
    const std::uint64_t bytes = pulls_.pull_group(*record);
    counters_.bytes_in.add(bytes);
    pulled += bytes;
    fine = record->tile.fine;
  }
  counters_.tiles.add(started);
  return started;
}

std::size_t TilePipeline::start_downs() {
  std::size_t started = 0;
  for (; tiles().has_downs(); ++started) {
    TileRecord* record = pool_.next_down();
    if (record == nullptr || !tiles().start_down(record->tile)) break;
    pool_.take(*record);
    hand_on(*record);
  }
  return started;
}

// Goes by index, because handling one event may add the next one.
std::size_t TilePipeline::handle_events() {
  protocol::Outbox& outbox = protocol_.outbox();
  std::size_t handled = 0;
  for (; handled < outbox.tile_events().size(); ++handled) {
    const protocol::TileEvent event = outbox.tile_events()[handled];
    TileRecord& record = pool_[event.handle];
    if (event.kind == protocol::TileEvent::Kind::kPull) {
      if (pulls_.take_partial(record, event)) take_group(record);
    } else {
      pushes_.push_down(record, event);
      if (record.pushes_left == 0) end(record, clock_.now());
    }
  }
  if (handled > 0) outbox.clear_tile_events();
  return handled;
}

std::size_t TilePipeline::poll_pulls(std::uint64_t most) {
  std::size_t total = 0;
  std::uint64_t pulled = 0;
  while (pulled < most) {
    const std::size_t count = pulls_.poll();
    if (count == 0) break;
    while (TileRecord* record = pulls_.next_complete()) pulled += take_group(*record);
    total += count;
  }
  return total;
}

// The shard stores nothing more for such a tile.
bool TilePipeline::stopped(const TileRecord& record) {
  return record.status != Status::kOk || !tiles().wanted(record.tile);
}

// All inputs of the group have arrived or failed. Returns the bytes of the next group that it has
// pulled.
std::uint64_t TilePipeline::take_group(TileRecord& record) {
  debug_step(DebugStep::kNodePulled);
  if (stopped(record)) {
    give_up(record);
  } else if (record.tile.completes()) {
    sum(record);
  } else {
    return add_group(record);
  }
  return 0;
}

// The tile ends when its last TileEvent has come. Until then its child nodes still report that
// their partial sums will not come.
void TilePipeline::give_up(TileRecord& record) {
  pulls_.release(record);
  if (record.partials_left == 0) end(record, clock_.now());
}

// Memory runs out before the tile begins access to any memory of the job.
void TilePipeline::give_up_without_memory(TileRecord& record) {
  counters_.out_of_memory.add();
  give_up(record);
}

// Adds the group to the sum so far. The tile keeps nothing else of the group.
std::uint64_t TilePipeline::add_group(TileRecord& record) {
  if (!TileReducer::reserve_partial(record)) {
    give_up_without_memory(record);
    return 0;
  }
  if (!open(record)) return 0;
  const Nanos began = clock_.now();
  reducer_.add_group(record);
  if (!close(record)) return 0;
  tiles().next_group(record.tile, began, clock_.now());
  const std::uint64_t bytes = pulls_.pull_group(record);
  counters_.bytes_in.add(bytes);
  return bytes;
}

// The last inputs have arrived. The kernels store the sum in every receiver's memory where the
// transport allows it.
void TilePipeline::sum(TileRecord& record) {
  const protocol::Tile& tile = record.tile;
  const auto landings = pushes_.locate(record);
  if (!TileReducer::reserve_results(record, landings)) return give_up_without_memory(record);
  if (!open(record)) return;
  tiles().storing(record.tile, clock_.now());
  debug_step(DebugStep::kNodeStoring);
  if (tile.partial) counters_.bytes_up.add(tile.count * element_bytes(tile.partial_type));
  reducer_.reduce(record, landings, tile.partial ? parents_.buffer_of(tile) : nullptr);
  debug_step(DebugStep::kNodeSummed);
  if (!close(record)) return;
  const Nanos now = clock_.now();
  tiles().stored(tile, now);
  push(record, landings, now);
}

// Stores the result at the ranks immediately. Each child node has a TileEvent of its own. The tile
// lasts until all these have come, also when it has failed here.
void TilePipeline::hand_on(TileRecord& record) {
  const protocol::Tile& tile = record.tile;
  counters_.bytes_down.add(tile.count * element_bytes(tile.type));
  if (!tiles().wanted(tile)) return push(record, {}, clock_.now());
  std::byte* const own = parents_.buffer_of(tile);
  record.result = own;
  auto landings = pushes_.locate(record);
  auto lost = transport_.begin_access(tile.members);
  if (lost == transport::kNoPeer) {
    reducer_.copy(record, landings, own);
    lost = transport_.end_access(tile.members);
  }
  if (lost != transport::kNoPeer) {
    record.fail(Status::kPeerLost, lost);
    landings = {};
  }
  push(record, landings, clock_.now());
}

// Returns the sessions whose memory the shard touches to add up the group.
std::span<const protocol::SessionId> TilePipeline::touched(const TileRecord& record) {
  const protocol::Tile& tile = record.tile;
  if (tile.completes()) return tile.members;
  members_.clear();
  for (std::uint32_t i = tile.group.begin; i < tile.group.end; ++i) {
    members_.push_back(tile.sources[i].member);
  }
  return members_;
}

// Begins access to memory and checks the inputs. Returns false when the tile waits or ends.
bool TilePipeline::open(TileRecord& record) {
  if (const auto fenced = transport_.begin_access(touched(record)); fenced != transport::kNoPeer) {
    record.fail(Status::kPeerLost, fenced);
    give_up(record);
    return false;
  }
  if (record.checksums.begin == record.checksums.end || check(record)) return true;
  // The group has not been added up, so the shard can pull its inputs again.
  if (close(record)) record.status == Status::kOk ? pulls_.pull_again(record) : give_up(record);
  return false;
}

// Ends access and gives all inputs back, also those that the shard will pull again. A tile that
// kept some, while it waits behind pulls of others, could prevent these from landing. Returns false
// when some memory had gone away.
bool TilePipeline::close(TileRecord& record) {
  const auto faulted = transport_.end_access(touched(record));
  pulls_.release(record);
  if (faulted == transport::kNoPeer) return true;
  record.fail(Status::kPeerLost, faulted);
  give_up(record);
  return false;
}

// Returns false when an input does not match its checksums.
bool TilePipeline::check(TileRecord& record) {
  bool good = true;
  for (std::size_t i = record.checksums.begin; i < record.checksums.end; ++i) {
    if (reducer_.intact(record, i)) continue;
    good = false;
    const protocol::SessionId member = record.tile.checksums[i].where.member;
    counters_.damaged.add();
    tiles().damaged(member);
    if (++record.damages[i] > kMostRepeats) record.fail(Status::kDamaged, member);
  }
  return good;
}

// Child nodes get the result when they have room, by a TileEvent.
void TilePipeline::push(TileRecord& record, std::span<const transport::Landing> landings,
                        Nanos now) {
  pushes_.start(record, landings);
  if (record.pushes_left == 0) return end(record, now);
  const bool waits = TilePushes::has_more(record);
  if (!waits && record.tile.below.empty()) return;
  const bool may = record.down || tiles().start_pushing(record.tile, now);
  if (!waits) return;
  may ? push_more(record, now) : kept_back_.push_back(record.tile.handle);
}

void TilePipeline::push_more(TileRecord& record, Nanos now) {
  if (!TilePushes::has_more(record)) return;
  if (!stopped(record)) return pushes_.push_more(record);
  TilePushes::drop_rest(record);
  if (record.pushes_left == 0) end(record, now);
}

std::size_t TilePipeline::poll_pushes() {
  std::size_t total = 0;
  while (const std::size_t count = pushes_.poll()) {
    const Nanos now = clock_.now();
    continued_.clear();
    while (const auto answer = pushes_.next()) {
      TileRecord& record = *answer->record;
      if (answer->below != protocol::kNone) tiles().passed_down(record.tile, answer->below);
      if (record.pushes_left == 0) end(record, now);
      const bool kept_back = record.tile.phase == protocol::Tile::Phase::kKeptBack;
      if (TilePushes::has_more(record) && !kept_back) continued_.push_back(record.tile.handle);
    }
    for (const std::uint32_t handle : continued_) push_more(pool_[handle], now);
    total += count;
  }
  if (!kept_back_.empty()) push_kept_back();
  return total;
}

// Tries the tiles in their order, because pushes of others may have been answered.
void TilePipeline::push_kept_back() {
  const Nanos now = clock_.now();
  std::size_t kept = 0;
  for (const std::uint32_t handle : kept_back_) {
    TileRecord& record = pool_[handle];
    if (stopped(record) || tiles().start_pushing(record.tile, now)) {
      push_more(record, now);
    } else {
      kept_back_[kept++] = handle;
    }
  }
  kept_back_.resize(kept);
}

std::vector<protocol::SessionId> TilePipeline::awaited(const protocol::Stuck& stuck) const {
  std::vector<protocol::SessionId> sessions;
  for (const TileRecord& record : pool_.records()) {
    if (record.tile.job != stuck.job || record.tile.operation != stuck.operation) continue;
    TilePulls::append_awaited(record, sessions);
    TilePushes::append_awaited(record, sessions);
  }
  return sessions;
}

void TilePipeline::end(TileRecord& record, Nanos now) {
  pool_.put_back(record);
  debug_step(DebugStep::kNodePlaced);
  if (record.down) {
    tiles().end_down(record.tile, record.status, record.culprit, now);
  } else {
    tiles().end_tile(record.tile, record.status, record.culprit, now);
  }
}

}  // namespace tally::engine
