#include "tests/sim/trees/shard.h"

#include <algorithm>
#include <cstring>

#include "summation/reduce.h"
#include "tests/sim/trees/world.h"

namespace tally::sim::trees {

using protocol::Endpoint;
using protocol::Tile;
using protocol::TileEvent;

SimShard::SimShard(World& world, std::uint32_t node, const protocol::AggregatorConfig& config)
    : world_(world), node_(node), protocol_(config) {}

std::uint32_t SimShard::free_handle() {
  const auto found =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.used; });
  if (found == slots_.end())
    return slots_.emplace_back(), static_cast<std::uint32_t>(slots_.size() - 1);
  return static_cast<std::uint32_t>(found - slots_.begin());
}

void SimShard::turn() {
  while (take_steps() || start_tiles()) {
  }
  world_.send(node_, protocol_);
}

bool SimShard::take_steps() {
  if (protocol_.outbox().tile_events().empty()) return false;
  const std::vector<TileEvent> events(protocol_.outbox().tile_events().begin(),
                                      protocol_.outbox().tile_events().end());
  protocol_.outbox().clear_tile_events();
  for (const TileEvent& event : events) {
    Slot& slot = slots_[event.handle];
    if (!slot.used) violated("an event for a tile that has ended");
    const bool pull = event.kind == TileEvent::Kind::kPull;
    const Transfer transfer{node_, event.handle,
                            pull ? Transfer::Kind::kPull : Transfer::Kind::kBelow, event.index,
                            pull ? slot.tile.sources[event.index] : event.where};
    if (!pull) slot.tile.below[event.index].slot = event.slot;
    if (event.status == Status::kOk) {
      world_.start(transfer);
    } else {
      done(transfer, event.status);
    }
  }
  return true;
}

void SimShard::begin(Slot& slot, bool down) {
  slot.used = true;
  slot.down = down;
  slot.status = Status::kOk;
  slot.culprit = protocol::kNoSession;
  slot.pulls_left = static_cast<std::uint32_t>(slot.tile.sources.size());
  slot.inputs.assign(slot.tile.sources.size(), {});
  ++in_flight_;
}

bool SimShard::start_tiles() {
  for (;;) {
    const std::uint32_t handle = free_handle();
    Slot& slot = slots_[handle];
    slot.tile.handle = handle;
    if (protocol_.tiles().start_down(slot.tile)) {
      begin(slot, true);
      start_down(handle);
      return true;
    }
    if (!protocol_.tiles().start_tile(slot.tile)) return false;
    begin(slot, false);
    protocol_.tiles().pulling(slot.tile, world_.now());
    const std::size_t ready = slot.tile.sources.size() - slot.tile.partials;
    for (std::uint32_t i = 0; i < ready; ++i) {
      world_.start({node_, handle, Transfer::Kind::kPull, i, slot.tile.sources[i]});
    }
  }
}

void SimShard::fail(Slot& slot, Status status, protocol::SessionId culprit) {
  if (slot.status != Status::kOk) return;
  slot.status = status;
  slot.culprit = culprit;
}

void SimShard::done(const Transfer& transfer, Status status) {
  Slot& slot = slots_[transfer.handle];
  const bool ok = status == Status::kOk;
  if (!ok) fail(slot, status, transfer.where.member);
  std::byte* const there = ok ? world_.memory(node_, transfer.where, slot.tile) : nullptr;
  switch (transfer.kind) {
    case Transfer::Kind::kPull:
      if (ok) slot.inputs[transfer.index].assign(there, there + transfer.where.bytes);
      if (--slot.pulls_left == 0) sum(transfer.handle);
      return;
    case Transfer::Kind::kPush:
    case Transfer::Kind::kStats: {
      const auto& from = transfer.kind == Transfer::Kind::kPush ? slot.result : slot.stats;
      if (ok) std::memcpy(there, from.data(), transfer.where.bytes);
      return pushed(transfer.handle);
    }
    case Transfer::Kind::kBelow:
      if (ok) {
        std::memcpy(there, slot.result.data(), transfer.where.bytes);
        protocol_.tiles().passed_down(slot.tile, transfer.index);
      }
      return pushed(transfer.handle);
  }
}

void SimShard::sum(std::uint32_t handle) {
  Slot& slot = slots_[handle];
  Tile& tile = slot.tile;
  if (slot.status != Status::kOk || !protocol_.tiles().wanted(tile)) return end(handle);
  protocol_.tiles().storing(tile, world_.now());
  std::vector<Span> spans;
  for (const auto& input : slot.inputs) spans.push_back(Span{input.data(), input.size()});
  std::vector<View> views;
  for (const Span& span : spans) views.emplace_back(&span, 1);
  const std::size_t ranks = views.size() - tile.partials;
  const ElementType result_type = tile.partial ? tile.partial_type : tile.type;
  slot.result.resize(tile.count * element_bytes(result_type));
  std::byte* const output = slot.result.data();
  summation::Reduction reduction;
  reduction.type = tile.type;
  reduction.operation = tile.reduction;
  reduction.divisor = tile.divisor;
  reduction.count = tile.count;
  reduction.inputs = std::span(views).first(ranks);
  reduction.partials = std::span(views).subspan(ranks);
  reduction.partial_result = tile.partial;
  reduction.outputs = std::span(&output, 1);
  summation::reduce(*summation::kernels(summation::best_isa()), reduction);
  protocol_.tiles().stored(tile, world_.now());
  if (tile.partial) {
    std::memcpy(world_.own_memory(node_, tile, true), slot.result.data(), slot.result.size());
    return end(handle);
  }
  push(handle);
}

void SimShard::make_stats(Slot& slot) {
  const Tile& tile = slot.tile;
  std::vector<BlockStats> stats(stats_blocks(tile.count));
  world_.stats_of(tile.type, tile.count, slot.result.data(), stats);
  slot.stats.resize(stats.size() * sizeof(BlockStats));
  std::memcpy(slot.stats.data(), stats.data(), slot.stats.size());
}

void SimShard::push(std::uint32_t handle) {
  Slot& slot = slots_[handle];
  const Tile& tile = slot.tile;
  slot.pushes_left = static_cast<std::uint32_t>(tile.landings.size() + tile.stats_landings.size() +
                                                tile.below.size());
  if (slot.pushes_left == 0) return end(handle);
  if (!slot.down)
    protocol_.tiles().start_pushing(slot.tile, world_.now());  // and pushes anyway, in any order
  if (!tile.stats_landings.empty()) make_stats(slot);
  for (std::uint32_t i = 0; i < tile.landings.size(); ++i) {
    world_.start({node_, handle, Transfer::Kind::kPush, i, tile.landings[i]});
  }
  for (std::uint32_t i = 0; i < tile.stats_landings.size(); ++i) {
    world_.start({node_, handle, Transfer::Kind::kStats, i, tile.stats_landings[i]});
  }
}

void SimShard::start_down(std::uint32_t handle) {
  Slot& slot = slots_[handle];
  if (!protocol_.tiles().wanted(slot.tile)) return end(handle);
  const std::byte* from = world_.own_memory(node_, slot.tile, false);
  slot.result.assign(from, from + slot.tile.count * element_bytes(slot.tile.type));
  push(handle);
}

void SimShard::pushed(std::uint32_t handle) {
  if (--slots_[handle].pushes_left == 0) end(handle);
}

void SimShard::end(std::uint32_t handle) {
  Slot& slot = slots_[handle];
  slot.used = false;
  --in_flight_;
  if (slot.down) {
    protocol_.tiles().end_down(slot.tile, slot.status, slot.culprit, world_.now());
  } else {
    protocol_.tiles().end_tile(slot.tile, slot.status, slot.culprit, world_.now());
  }
}

}  // namespace tally::sim::trees
