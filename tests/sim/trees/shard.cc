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
  const auto found = std::find_if(records_.begin(), records_.end(),
                                  [](const Record& record) { return !record.used; });
  if (found == records_.end())
    return records_.emplace_back(), static_cast<std::uint32_t>(records_.size() - 1);
  return static_cast<std::uint32_t>(found - records_.begin());
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
    Record& record = records_[event.handle];
    if (!record.used) violated("an event for a tile that has ended");
    const bool pull = event.kind == TileEvent::Kind::kPull;
    const Transfer transfer{node_, event.handle,
                            pull ? Transfer::Kind::kPull : Transfer::Kind::kBelow, event.index,
                            pull ? record.tile.sources[event.index] : event.where};
    if (!pull) record.tile.below[event.index].buffer = event.buffer;
    if (event.status == Status::kOk) {
      world_.start(transfer);
    } else {
      done(transfer, event.status);
    }
  }
  return true;
}

void SimShard::begin(Record& record, bool down) {
  record.used = true;
  record.down = down;
  record.status = Status::kOk;
  record.culprit = protocol::kNoSession;
  record.pulls_left = static_cast<std::uint32_t>(record.tile.sources.size());
  record.inputs.assign(record.tile.sources.size(), {});
  ++in_flight_;
}

bool SimShard::start_tiles() {
  protocol_.tiles().release(world_.now());
  for (;;) {
    const std::uint32_t handle = free_handle();
    Record& record = records_[handle];
    record.tile.handle = handle;
    if (protocol_.tiles().start_down(record.tile)) {
      begin(record, true);
      start_down(handle);
      return true;
    }
    if (!protocol_.tiles().start_tile(record.tile)) return false;
    begin(record, false);
    protocol_.tiles().pulling(record.tile, world_.now());
    const std::size_t ready = record.tile.sources.size() - record.tile.partials;
    for (std::uint32_t i = 0; i < ready; ++i) {
      world_.start({node_, handle, Transfer::Kind::kPull, i, record.tile.sources[i]});
    }
  }
}

void SimShard::fail(Record& record, Status status, protocol::SessionId culprit) {
  if (record.status != Status::kOk) return;
  record.status = status;
  record.culprit = culprit;
}

void SimShard::done(const Transfer& transfer, Status status) {
  Record& record = records_[transfer.handle];
  const bool ok = status == Status::kOk;
  if (!ok) fail(record, status, transfer.where.member);
  std::byte* const there = ok ? world_.memory(node_, transfer.where, record.tile) : nullptr;
  switch (transfer.kind) {
    case Transfer::Kind::kPull:
      if (ok) record.inputs[transfer.index].assign(there, there + transfer.where.bytes);
      if (--record.pulls_left == 0) sum(transfer.handle);
      return;
    case Transfer::Kind::kPush:
    case Transfer::Kind::kStats: {
      const auto& from = transfer.kind == Transfer::Kind::kPush ? record.result : record.stats;
      if (ok) std::memcpy(there, from.data(), transfer.where.bytes);
      return pushed(transfer.handle);
    }
    case Transfer::Kind::kBelow:
      if (ok) {
        std::memcpy(there, record.result.data(), transfer.where.bytes);
        protocol_.tiles().passed_down(record.tile, transfer.index);
      }
      return pushed(transfer.handle);
  }
}

void SimShard::sum(std::uint32_t handle) {
  Record& record = records_[handle];
  Tile& tile = record.tile;
  if (record.status != Status::kOk || !protocol_.tiles().wanted(tile)) return end(handle);
  protocol_.tiles().storing(tile, world_.now());
  std::vector<Span> spans;
  for (const auto& input : record.inputs) spans.push_back(Span{input.data(), input.size()});
  std::vector<View> views;
  for (const Span& span : spans) views.emplace_back(&span, 1);
  const std::size_t ranks = views.size() - tile.partials;
  const ElementType result_type = tile.partial ? tile.partial_type : tile.type;
  record.result.resize(tile.count * element_bytes(result_type));
  std::byte* const output = record.result.data();
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
    std::memcpy(world_.own_memory(node_, tile, true), record.result.data(), record.result.size());
    return end(handle);
  }
  push(handle);
}

void SimShard::make_stats(Record& record) {
  const Tile& tile = record.tile;
  std::vector<BlockStats> stats(stats_blocks(tile.count));
  world_.stats_of(tile.type, tile.count, record.result.data(), stats);
  record.stats.resize(stats.size() * sizeof(BlockStats));
  std::memcpy(record.stats.data(), stats.data(), record.stats.size());
}

void SimShard::push(std::uint32_t handle) {
  Record& record = records_[handle];
  const Tile& tile = record.tile;
  record.pushes_left = static_cast<std::uint32_t>(tile.landings.size() +
                                                  tile.stats_landings.size() + tile.below.size());
  if (record.pushes_left == 0) return end(handle);
  if (!record.down)
    protocol_.tiles().start_pushing(record.tile, world_.now());  // and pushes anyway, in any order
  if (!tile.stats_landings.empty()) make_stats(record);
  for (std::uint32_t i = 0; i < tile.landings.size(); ++i) {
    world_.start({node_, handle, Transfer::Kind::kPush, i, tile.landings[i]});
  }
  for (std::uint32_t i = 0; i < tile.stats_landings.size(); ++i) {
    world_.start({node_, handle, Transfer::Kind::kStats, i, tile.stats_landings[i]});
  }
}

void SimShard::start_down(std::uint32_t handle) {
  Record& record = records_[handle];
  if (!protocol_.tiles().wanted(record.tile)) return end(handle);
  const std::byte* from = world_.own_memory(node_, record.tile, false);
  record.result.assign(from, from + record.tile.count * element_bytes(record.tile.type));
  push(handle);
}

void SimShard::pushed(std::uint32_t handle) {
  if (--records_[handle].pushes_left == 0) end(handle);
}

void SimShard::end(std::uint32_t handle) {
  Record& record = records_[handle];
  record.used = false;
  --in_flight_;
  if (record.down) {
    protocol_.tiles().end_down(record.tile, record.status, record.culprit, world_.now());
  } else {
    protocol_.tiles().end_tile(record.tile, record.status, record.culprit, world_.now());
  }
}

}  // namespace tally::sim::trees
