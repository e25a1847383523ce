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
      pool_(protocol::tile_slots(config.protocol), config.memory),
      pulls_(transport, pool_, config.protocol.shard, config.max_ranks),
      reducer_(config.kernels, config.crc32c, config.max_ranks),
      pushes_(transport, pool_, counters.bytes_out, config.max_ranks) {
  kept_back_.reserve(pool_.slots().size());
  continued_.reserve(kBurst);
  members_.reserve(protocol::kGroupSources);
}

std::size_t TilePipeline::start_tiles() {
  std::size_t started = 0;
  std::uint64_t pulled = 0;
  bool fine = false;
  Nanos now = 0;
  for (; pulled < kTurnBytes && !fine && tiles().has_ready(); ++started) {
    TileSlot* slot = pool_.next_up();
    if (slot == nullptr || !tiles().start_tile(slot->tile)) break;
    if (started == 0) now = clock_.now();  // one reading for all tiles of the turn
    tiles().pulling(slot->tile, now);
    pool_.take(*slot);
    debug_step(DebugStep::kNodeReady);
    TilePulls::begin(*slot);
    const std::uint64_t bytes = pulls_.pull_group(*slot);
    counters_.bytes_in.add(bytes);
    pulled += bytes;
    fine = slot->tile.fine;
  }
  counters_.tiles.add(started);
  return started;
}

std::size_t TilePipeline::start_downs() {
  std::size_t started = 0;
  for (; tiles().has_downs(); ++started) {
    TileSlot* slot = pool_.next_down();
    if (slot == nullptr || !tiles().start_down(slot->tile)) break;
    pool_.take(*slot);
    hand_on(*slot);
  }
  return started;
}

// Goes by index, because handling one event may add the next one.
std::size_t TilePipeline::handle_events() {
  protocol::Outbox& outbox = protocol_.outbox();
  std::size_t handled = 0;
  for (; handled < outbox.tile_events().size(); ++handled) {
    const protocol::TileEvent event = outbox.tile_events()[handled];
    TileSlot& slot = pool_[event.handle];
    if (event.kind == protocol::TileEvent::Kind::kPull) {
      if (pulls_.take_partial(slot, event)) take_group(slot);
    } else {
      pushes_.push_down(slot, event);
      if (slot.pushes_left == 0) end(slot, clock_.now());
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
    while (TileSlot* slot = pulls_.next_complete()) pulled += take_group(*slot);
    total += count;
  }
  return total;
}

// The shard stores nothing more for such a tile.
bool TilePipeline::stopped(const TileSlot& slot) {
  return slot.status != Status::kOk || !tiles().wanted(slot.tile);
}

// All inputs of the group have arrived or failed. Returns the bytes of the next group that it has
// pulled.
std::uint64_t TilePipeline::take_group(TileSlot& slot) {
  debug_step(DebugStep::kNodePulled);
  if (stopped(slot)) {
    give_up(slot);
  } else if (slot.tile.completes()) {
    sum(slot);
  } else {
    return add_group(slot);
  }
  return 0;
}

// The tile ends when its last TileEvent has come. Until then its child nodes still report that
// their partial sums will not come.
void TilePipeline::give_up(TileSlot& slot) {
  pulls_.release(slot);
  if (slot.partials_left == 0) end(slot, clock_.now());
}

// Memory runs out before the tile begins access to any memory of the job.
void TilePipeline::give_up_without_memory(TileSlot& slot) {
  counters_.out_of_memory.add();
  give_up(slot);
}

// Adds the group to the sum so far. The tile keeps nothing else of the group.
std::uint64_t TilePipeline::add_group(TileSlot& slot) {
  if (!TileReducer::reserve_partial(slot)) {
    give_up_without_memory(slot);
    return 0;
  }
  if (!open(slot)) return 0;
  const Nanos began = clock_.now();
  reducer_.add_group(slot);
  if (!close(slot)) return 0;
  tiles().next_group(slot.tile, began, clock_.now());
  const std::uint64_t bytes = pulls_.pull_group(slot);
  counters_.bytes_in.add(bytes);
  return bytes;
}

// The last inputs have arrived. The kernels store the sum in every receiver's memory where the
// transport allows it.
void TilePipeline::sum(TileSlot& slot) {
  const protocol::Tile& tile = slot.tile;
  const auto landings = pushes_.locate(slot);
  if (!TileReducer::reserve_results(slot, landings)) return give_up_without_memory(slot);
  if (!open(slot)) return;
  tiles().storing(slot.tile, clock_.now());
  debug_step(DebugStep::kNodeStoring);
  if (tile.partial) counters_.bytes_up.add(tile.count * element_bytes(tile.partial_type));
  reducer_.reduce(slot, landings, tile.partial ? parents_.slot_of(tile) : nullptr);
  debug_step(DebugStep::kNodeSummed);
  if (!close(slot)) return;
  const Nanos now = clock_.now();
  tiles().stored(tile, now);
  push(slot, landings, now);
}

// Stores the result at the ranks immediately. Each child node has a TileEvent of its own. The tile
// lasts until all these have come, also when it has failed here.
void TilePipeline::hand_on(TileSlot& slot) {
  const protocol::Tile& tile = slot.tile;
  counters_.bytes_down.add(tile.count * element_bytes(tile.type));
  if (!tiles().wanted(tile)) return push(slot, {}, clock_.now());
  std::byte* const own = parents_.slot_of(tile);
  slot.result = own;
  auto landings = pushes_.locate(slot);
  auto lost = transport_.begin_access(tile.members);
  if (lost == transport::kNoPeer) {
    reducer_.copy(slot, landings, own);
    lost = transport_.end_access(tile.members);
  }
  if (lost != transport::kNoPeer) {
    slot.fail(Status::kPeerLost, lost);
    landings = {};
  }
  push(slot, landings, clock_.now());
}

// Returns the sessions whose memory the shard touches to add up the group.
std::span<const protocol::SessionId> TilePipeline::touched(const TileSlot& slot) {
  const protocol::Tile& tile = slot.tile;
  if (tile.completes()) return tile.members;
  members_.clear();
  for (std::uint32_t i = tile.group.begin; i < tile.group.end; ++i) {
    members_.push_back(tile.sources[i].member);
  }
  return members_;
}

// Begins access to memory and checks the inputs. Returns false when the tile waits or ends.
bool TilePipeline::open(TileSlot& slot) {
  if (const auto fenced = transport_.begin_access(touched(slot)); fenced != transport::kNoPeer) {
    slot.fail(Status::kPeerLost, fenced);
    give_up(slot);
    return false;
  }
  if (slot.checksums.begin == slot.checksums.end || check(slot)) return true;
  // The group has not been added up, so the shard can pull its inputs again.
  if (close(slot)) slot.status == Status::kOk ? pulls_.pull_again(slot) : give_up(slot);
  return false;
}

// Ends access and gives all inputs back, also those that the shard will pull again. A tile that
// kept some, while it waits behind pulls of others, could prevent these from landing. Returns false
// when some memory had gone away.
bool TilePipeline::close(TileSlot& slot) {
  const auto faulted = transport_.end_access(touched(slot));
  pulls_.release(slot);
  if (faulted == transport::kNoPeer) return true;
  slot.fail(Status::kPeerLost, faulted);
  give_up(slot);
  return false;
}

// Returns false when an input does not match its checksums.
bool TilePipeline::check(TileSlot& slot) {
  bool good = true;
  for (std::size_t i = slot.checksums.begin; i < slot.checksums.end; ++i) {
    if (reducer_.intact(slot, i)) continue;
    good = false;
    const protocol::SessionId member = slot.tile.checksums[i].where.member;
    counters_.damaged.add();
    tiles().damaged(member);
    if (++slot.damages[i] > kMostRepeats) slot.fail(Status::kDamaged, member);
  }
  return good;
}

// Child nodes get the result when they have room, by a TileEvent.
void TilePipeline::push(TileSlot& slot, std::span<const transport::Landing> landings, Nanos now) {
  pushes_.start(slot, landings);
  if (slot.pushes_left == 0) return end(slot, now);
  const bool waits = TilePushes::has_more(slot);
  if (!waits && slot.tile.below.empty()) return;
  const bool may = slot.down || tiles().start_pushing(slot.tile, now);
  if (!waits) return;
  may ? push_more(slot, now) : kept_back_.push_back(slot.tile.handle);
}

void TilePipeline::push_more(TileSlot& slot, Nanos now) {
  if (!TilePushes::has_more(slot)) return;
  if (!stopped(slot)) return pushes_.push_more(slot);
  TilePushes::drop_rest(slot);
  if (slot.pushes_left == 0) end(slot, now);
}

std::size_t TilePipeline::poll_pushes() {
  std::size_t total = 0;
  while (const std::size_t count = pushes_.poll()) {
    const Nanos now = clock_.now();
    continued_.clear();
    while (const auto answer = pushes_.next()) {
      TileSlot& slot = *answer->slot;
      if (answer->below != protocol::kNone) tiles().passed_down(slot.tile, answer->below);
      if (slot.pushes_left == 0) end(slot, now);
      const bool kept_back = slot.tile.phase == protocol::Tile::Phase::kKeptBack;
      if (TilePushes::has_more(slot) && !kept_back) continued_.push_back(slot.tile.handle);
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
    TileSlot& slot = pool_[handle];
    if (stopped(slot) || tiles().start_pushing(slot.tile, now)) {
      push_more(slot, now);
    } else {
      kept_back_[kept++] = handle;
    }
  }
  kept_back_.resize(kept);
}

std::vector<protocol::SessionId> TilePipeline::awaited(const protocol::Stuck& stuck) const {
  std::vector<protocol::SessionId> sessions;
  for (const TileSlot& slot : pool_.slots()) {
    if (slot.tile.job != stuck.job || slot.tile.operation != stuck.operation) continue;
    TilePulls::append_awaited(slot, sessions);
    TilePushes::append_awaited(slot, sessions);
  }
  return sessions;
}

void TilePipeline::end(TileSlot& slot, Nanos now) {
  pool_.put_back(slot);
  debug_step(DebugStep::kNodePlaced);
  if (slot.down) {
    tiles().end_down(slot.tile, slot.status, slot.culprit, now);
  } else {
    tiles().end_tile(slot.tile, slot.status, slot.culprit, now);
  }
}

}  // namespace tally::engine
