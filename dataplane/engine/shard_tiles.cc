// Tiles on their way: pulled, summed, pushed. shard_trees.cc has those that are handed down.
#include <algorithm>
#include <cstring>

#include "base/debug_steps.h"
#include "dataplane/engine/checksums.h"
#include "dataplane/engine/shard.h"

namespace tally::engine {
namespace {

// A turn starts tiles until this many bytes are on their way, so that notices of a higher priority
// wait for little.
constexpr std::uint64_t kTurnBytes = 1 << 20;
// Damaged inputs are pulled again so often; by then it is no accident.
constexpr std::uint8_t kMostRepeats = 3;

}  // namespace

std::size_t Shard::issue_pulls() {
  std::size_t tiles = 0;
  std::uint64_t pulled = 0;
  bool fine = false;
  Nanos now = 0;
  for (; pulled < kTurnBytes && !fine && !free_slots_.empty(); ++tiles) {
    const std::uint32_t slot = free_slots_.back();
    slots_[slot].tile.handle = slot;
    if (!protocol_.start_tile(slots_[slot].tile)) break;
    if (tiles == 0) now = clock_.now();  // one reading for all of them
    protocol_.pulling(slots_[slot].tile, now);
    free_slots_.pop_back();
    debug_step(DebugStep::kNodeReady);
    slots_[slot].damages.assign(slots_[slot].tile.checksums.size(), 0);
    pull(slot, false);
    for (const auto& source : slots_[slot].tile.sources) pulled += source.bytes;
    fine = slots_[slot].tile.fine;
  }
  counters_.bytes_in.add(pulled);
  counters_.tiles.add(tiles);
  return tiles;
}

// What branches have yet to sum is pulled when a Step says so; `again`: it has said so.
void Shard::pull(std::uint32_t index, bool again) {
  TileSlot& slot = slots_[index];
  const auto& sources = slot.tile.sources;
  slot.status = Status::kOk;
  slot.culprit = protocol::kNoMember;
  const auto& checksums = slot.tile.checksums;
  const std::size_t pulls = sources.size() + checksums.size();
  slot.pulls_left = static_cast<std::uint32_t>(pulls);
  slot.views.assign(pulls, View{});
  slot.handles.assign(pulls, 0);
  slot.held.assign(pulls, 0);
  pulls_.clear();
  const std::size_t at_once = again ? sources.size() : sources.size() - slot.tile.partials;
  // Every tile begins with another rank, so that shards and tiles do not all read rank 0 first.
  for (std::size_t i = 0; i < at_once; ++i) {
    const std::size_t source = (i + index + config_.protocol.shard) % at_once;
    pulls_.push_back({range_of(sources[source]), user_of(index, source)});
  }
  for (std::size_t i = 0; i < checksums.size(); ++i) {
    pulls_.push_back({range_of(checksums[i].where), user_of(index, sources.size() + i)});
  }
  transport_.pull(pulls_);
}

protocol::Member Shard::pulled_from(const TileSlot& slot, std::size_t pull) {
  const protocol::Tile& tile = slot.tile;
  return pull < tile.sources.size() ? tile.sources[pull].member
                                    : tile.checksums[pull - tile.sources.size()].where.member;
}

std::size_t Shard::take_pulled() {
  std::size_t total = 0;
  while (const std::size_t count = transport_.pulled(pulled_)) {
    for (const transport::Pulled& pulled : std::span(pulled_).first(count)) {
      TileSlot& slot = slots_[slot_of(pulled.user)];
      const std::size_t pull = index_of(pulled.user);
      if (pulled.status == Status::kOk) {
        slot.views[pull] = pulled.view;
        slot.handles[pull] = pulled.handle;
        slot.held[pull] = 1;
      } else {
        fail(slot, pulled.status, pulled_from(slot, pull));
      }
      if (--slot.pulls_left == 0) sum(slot_of(pulled.user));
    }
    total += count;
  }
  return total;
}

void Shard::fail(TileSlot& slot, Status status, protocol::Member culprit) {
  if (slot.status != Status::kOk) return;  // the first one to fail is the one to name
  slot.status = status;
  slot.culprit = culprit;
}

// All inputs are there: one pass over them, into every receiver's memory where the transport lets
// the kernels store there.
void Shard::sum(std::uint32_t index) {
  TileSlot& slot = slots_[index];
  debug_step(DebugStep::kNodePulled);
  if (slot.status != Status::kOk || !protocol_.wanted(slot.tile)) {
    return end(index, clock_.now());
  }
  locate(slot);
  if (const auto fenced = transport_.open(slot.tile.members); fenced != transport::kNoPeer) {
    fail(slot, Status::kPeerLost, fenced);
    return end(index, clock_.now());
  }
  if (!slot.tile.checksums.empty() && !check(slot)) return pull_again(index);
  protocol_.storing(slot.tile, clock_.now());
  debug_step(DebugStep::kNodeStoring);
  reduce(slot);
  place_stats(slot);
  debug_step(DebugStep::kNodeSummed);
  const auto faulted = transport_.close(slot.tile.members);
  release_views(slot);
  if (faulted != transport::kNoPeer) {
    fail(slot, Status::kPeerLost, faulted);
    return end(index, clock_.now());
  }
  protocol_.stored(slot.tile, clock_.now());
  push(index);
}

// Where results and statistics go, into landings_.
void Shard::locate(const TileSlot& slot) {
  landings_.clear();
  for (const auto* endpoints : {&slot.tile.landings, &slot.tile.stats_landings}) {
    for (const protocol::Endpoint& endpoint : *endpoints) {
      landings_.push_back(
          {range_of(endpoint), nullptr, slot.tile.operation_bytes, endpoint.cookie});
    }
  }
  transport_.locate(landings_);
}

// False: some input does not have its checksums.
bool Shard::check(TileSlot& slot) {
  const protocol::Tile& tile = slot.tile;
  bool good = true;
  for (std::size_t i = 0; i < tile.checksums.size(); ++i) {
    const auto& [source, where] = tile.checksums[i];
    const View given = slot.views[tile.sources.size() + i];
    if (intact(*config_.crc32c, slot.views[source], given, tile.lead, tile.stream)) continue;
    good = false;
    counters_.damaged.add();
    protocol_.damaged(where.member);
    if (++slot.damages[i] > kMostRepeats) fail(slot, Status::kDamaged, where.member);
  }
  return good;
}

// Nothing of the tile has been stored, so its inputs are whole. All of them are given back first: a
// tile that kept some while it waits behind others' pulls could keep these from landing.
void Shard::pull_again(std::uint32_t index) {
  TileSlot& slot = slots_[index];
  const auto faulted = transport_.close(slot.tile.members);
  release_views(slot);
  if (faulted != transport::kNoPeer) fail(slot, Status::kPeerLost, faulted);
  if (slot.status != Status::kOk) return end(index, clock_.now());
  pull(index, true);
}

void Shard::reduce(TileSlot& slot) {
  const protocol::Tile& tile = slot.tile;
  outputs_.clear();
  bool staged = !tile.below.empty();
  for (const auto& landing : std::span(landings_).first(tile.landings.size())) {
    if (landing.direct != nullptr) outputs_.push_back(landing.direct);
    staged |= landing.direct == nullptr;
  }
  if (staged) {
    const std::uint64_t bytes = tile.count * element_bytes(tile.type);
    if (slot.staging.size() < bytes) slot.staging.resize(bytes);
    outputs_.push_back(slot.staging.data());
  }
  if (tile.partial) {
    outputs_.push_back(own_slot(tile));
    counters_.bytes_up.add(tile.count * element_bytes(tile.partial_type));
  }
  slot.result = slot.staging.data();
  if (outputs_.empty()) return;
  const std::size_t inputs = tile.sources.size() - tile.partials;
  summation::Reduction reduction;
  reduction.operation = tile.reduction;
  reduction.partial_result = tile.partial;
  reduction.divisor = tile.divisor;
  reduction.inputs = std::span(slot.views).first(inputs);
  reduction.partials = std::span(slot.views).subspan(inputs, tile.partials);
  store(slot, reduction);
}

// To outputs_, with the statistics that the tile is to have.
void Shard::store(TileSlot& slot, summation::Reduction& reduction) const {
  const protocol::Tile& tile = slot.tile;
  reduction.type = tile.type;
  reduction.count = tile.count;
  reduction.outputs = outputs_;
  reduction.stream_outputs = tile.stream;
  if (!tile.stats_landings.empty()) {
    slot.stats.resize(stats_blocks(tile.count));
    reduction.stats = slot.stats;
  }
  summation::reduce(*config_.kernels, reduction);
}

void Shard::place_stats(TileSlot& slot) {
  for (const auto& landing : std::span(landings_).subspan(slot.tile.landings.size())) {
    if (landing.direct == nullptr) continue;
    std::memcpy(landing.direct, slot.stats.data(), landing.target.bytes);
  }
}

// To branches it goes when they have room.
void Shard::push(std::uint32_t index) {
  TileSlot& slot = slots_[index];
  slot.pushes_left = static_cast<std::uint32_t>(landings_.size() + slot.tile.below.size());
  if (slot.pushes_left == 0) return end(index, clock_.now());
  if (landings_.empty()) return;
  pushes_.clear();
  for (std::size_t i = 0; i < landings_.size(); ++i) {
    const bool is_stats = i >= slot.tile.landings.size();
    const auto* source =
        is_stats ? reinterpret_cast<const std::byte*>(slot.stats.data()) : slot.result;
    pushes_.push_back({landings_[i], source, user_of(index, i)});
    counters_.bytes_out.add(landings_[i].target.bytes);
  }
  transport_.push(pushes_);
}

protocol::Member Shard::pushed_to(const TileSlot& slot, std::size_t push) {
  const protocol::Tile& tile = slot.tile;
  const std::size_t results = tile.landings.size();
  const std::size_t own = results + tile.stats_landings.size();
  if (push < results) return tile.landings[push].member;
  return push < own ? tile.stats_landings[push - results].member : tile.below[push - own].member;
}

std::size_t Shard::take_pushed() {
  std::size_t total = 0;
  while (const std::size_t count = transport_.pushed(pushed_)) {
    const Nanos now = clock_.now();
    for (const transport::Pushed& pushed : std::span(pushed_).first(count)) {
      TileSlot& slot = slots_[slot_of(pushed.user)];
      const std::size_t push = index_of(pushed.user);
      const std::size_t own = slot.tile.landings.size() + slot.tile.stats_landings.size();
      if (pushed.status != Status::kOk) {
        fail(slot, pushed.status, pushed_to(slot, push));
      } else if (push >= own) {
        protocol_.passed_down(slot.tile, static_cast<std::uint32_t>(push - own));
      }
      if (--slot.pushes_left == 0) end(slot_of(pushed.user), now);
    }
    total += count;
  }
  return total;
}

void Shard::release_views(TileSlot& slot) {
  for (std::size_t i = 0; i < slot.held.size(); ++i) {
    if (slot.held[i] != 0) transport_.release(slot.handles[i]);
    slot.held[i] = 0;
  }
}

void Shard::end(std::uint32_t index, Nanos now) {
  TileSlot& slot = slots_[index];
  release_views(slot);
  (slot.down ? free_downs_ : free_slots_).push_back(index);
  debug_step(DebugStep::kNodePlaced);
  if (slot.down) {
    protocol_.end_down(slot.tile, slot.status, slot.culprit, now);
  } else {
    protocol_.end_tile(slot.tile, slot.status, slot.culprit, now);
  }
}

}  // namespace tally::engine
