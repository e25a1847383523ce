#include "dataplane/engine/tiles/tile_reducer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "dataplane/engine/tiles/checksums.h"

namespace tally::engine {
namespace {

template <typename Buffer>
bool reserve_buffer(TileSlot& slot, Buffer& buffer, std::size_t size) {
  try {
    if (buffer.size() < size) buffer.resize(size);
    return true;
  } catch (const std::bad_alloc&) {
    slot.fail(Status::kNoMemory, protocol::kNoSession);
    return false;
  }
}

// Returns the reduction of the group, with the sum so far before it.
summation::Reduction reduction_of(const TileSlot& slot) {
  const protocol::Tile& tile = slot.tile;
  const std::uint32_t inputs = std::min(tile.group.end, tile.ranks());
  const std::uint32_t begin = std::min(tile.group.begin, inputs);
  summation::Reduction reduction;
  reduction.type = tile.type;
  reduction.operation = tile.reduction;
  reduction.divisor = tile.divisor;
  reduction.count = tile.count;
  reduction.inputs = std::span(slot.views).subspan(begin, inputs - begin);
  reduction.partials = std::span(slot.views).subspan(inputs, tile.group.end - inputs);
  if (tile.continues()) reduction.before = slot.partial.data();
  return reduction;
}

}  // namespace

TileReducer::TileReducer(const summation::Kernels* kernels, const Crc32c* crc32c,
                         std::size_t children)
    : kernels_(kernels), crc32c_(crc32c) {
  outputs_.reserve(2 * children);
}

bool TileReducer::reserve_partial(TileSlot& slot) {
  return reserve_buffer(slot, slot.partial,
                        slot.tile.count * element_bytes(slot.tile.partial_type));
}

// The result is staged when the kernels cannot store at one of its receivers, and when child nodes
// receive it.
bool TileReducer::reserve_results(TileSlot& slot, std::span<const transport::Landing> landings) {
  const protocol::Tile& tile = slot.tile;
  const auto results = landings.first(tile.landings.size());
  const auto elsewhere = [](const transport::Landing& landing) {
    return landing.direct == nullptr;
  };
  slot.staged = !tile.below.empty() || std::any_of(results.begin(), results.end(), elsewhere);
  const std::size_t blocks = tile.stats_landings.empty() ? 0 : stats_blocks(tile.count);
  return reserve_buffer(slot, slot.staging,
                        slot.staged ? tile.count * element_bytes(tile.type) : 0) &&
         reserve_buffer(slot, slot.stats, blocks);
}

bool TileReducer::intact(const TileSlot& slot, std::size_t index) const {
  const protocol::Tile& tile = slot.tile;
  const View checksums = slot.views[tile.sources.size() + index];
  return engine::intact(*crc32c_, slot.views[tile.checksums[index].source], checksums, tile.lead,
                        tile.stream);
}

void TileReducer::add_group(TileSlot& slot) {
  outputs_.assign(1, slot.partial.data());
  summation::Reduction reduction = reduction_of(slot);
  reduction.partial_result = true;
  reduction.outputs = outputs_;
  summation::reduce(*kernels_, reduction);
}

void TileReducer::reduce(TileSlot& slot, std::span<const transport::Landing> landings,
                         std::byte* own) {
  const protocol::Tile& tile = slot.tile;
  add_direct_outputs(slot, landings);
  if (slot.staged) outputs_.push_back(slot.staging.data());
  if (tile.partial) outputs_.push_back(own);
  slot.result = slot.staging.data();
  if (!outputs_.empty()) {
    summation::Reduction reduction = reduction_of(slot);
    reduction.partial_result = tile.partial;
    store(slot, reduction);
  }
  place_stats(slot, landings);
}

// The kernels copy the result: the sum of one input is the input. They also make its statistics.
void TileReducer::copy(TileSlot& slot, std::span<const transport::Landing> landings,
                       std::byte* own) {
  const protocol::Tile& tile = slot.tile;
  add_direct_outputs(slot, landings);
  if (outputs_.empty() && tile.stats_landings.empty()) return;
  if (outputs_.empty()) outputs_.push_back(own);  // a copy onto itself
  const Span result{slot.result, tile.count * element_bytes(tile.type)};
  const View view(&result, 1);
  summation::Reduction reduction;
  reduction.inputs = {&view, 1};
  store(slot, reduction);
  place_stats(slot, landings);
}

// Sets outputs_ to the results that the kernels can store at their receivers.
void TileReducer::add_direct_outputs(const TileSlot& slot,
                                     std::span<const transport::Landing> landings) {
  outputs_.clear();
  for (const auto& landing : landings.first(slot.tile.landings.size())) {
    if (landing.direct != nullptr) outputs_.push_back(landing.direct);
  }
}

// Reduces to outputs_, with the statistics that the tile needs.
void TileReducer::store(TileSlot& slot, summation::Reduction& reduction) const {
  const protocol::Tile& tile = slot.tile;
  reduction.type = tile.type;
  reduction.count = tile.count;
  reduction.outputs = outputs_;
  reduction.stream_outputs = tile.stream;
  if (!tile.stats_landings.empty()) {
    slot.stats.resize(stats_blocks(tile.count));
    reduction.stats = slot.stats;
  }
  summation::reduce(*kernels_, reduction);
}

void TileReducer::place_stats(TileSlot& slot, std::span<const transport::Landing> landings) {
  for (const auto& landing : landings.subspan(slot.tile.landings.size())) {
    if (landing.direct == nullptr) continue;
    std::memcpy(landing.direct, slot.stats.data(), landing.target.bytes);
  }
}

}  // namespace tally::engine
