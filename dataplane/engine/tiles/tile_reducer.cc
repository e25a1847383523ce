#include "dataplane/engine/tiles/tile_reducer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "dataplane/engine/tiles/checksums.h"

namespace tally::engine {
namespace {

template <typename Buffer>
bool reserve_buffer(TileRecord& record, Buffer& buffer, std::size_t size) {
  try {
    if (buffer.size() < size) buffer.resize(size);
    return true;
  } catch (const std::bad_alloc&) {
    record.fail(Status::kNoMemory, protocol::kNoSession);
    return false;
  }
}

// Returns the reduction of the group, with the sum so far before it.
summation::Reduction reduction_of(const TileRecord& record) {
  const protocol::Tile& tile = record.tile;
  const std::uint32_t inputs = std::min(tile.group.end, tile.ranks());
  const std::uint32_t begin = std::min(tile.group.begin, inputs);
  summation::Reduction reduction;
  reduction.type = tile.type;
  reduction.operation = tile.reduction;
  reduction.divisor = tile.divisor;
  reduction.count = tile.count;
  reduction.inputs = std::span(record.views).subspan(begin, inputs - begin);
  reduction.partials = std::span(record.views).subspan(inputs, tile.group.end - inputs);
  if (tile.continues()) reduction.before = record.partial.data();
  return reduction;
}

}  // namespace

TileReducer::TileReducer(const summation::Kernels* kernels, const Crc32c* crc32c,
                         std::size_t children)
    : kernels_(kernels), crc32c_(crc32c) {
  outputs_.reserve(2 * children);
}

bool TileReducer::reserve_partial(TileRecord& record) {
  return reserve_buffer(record, record.partial,
                        record.tile.count * element_bytes(record.tile.partial_type));
}

// The result is staged when the kernels cannot store at one of its receivers, and when child nodes
// receive it.
bool TileReducer::reserve_results(TileRecord& record,
                                  std::span<const transport::Landing> landings) {
  const protocol::Tile& tile = record.tile;
  const auto results = landings.first(tile.landings.size());
  const auto elsewhere = [](const transport::Landing& landing) {
    return landing.direct == nullptr;
  };
  record.staged = !tile.below.empty() || std::any_of(results.begin(), results.end(), elsewhere);
  const std::size_t blocks = tile.stats_landings.empty() ? 0 : stats_blocks(tile.count);
  return reserve_buffer(record, record.staging,
                        record.staged ? tile.count * element_bytes(tile.type) : 0) &&
         reserve_buffer(record, record.stats, blocks);
}

bool TileReducer::intact(const TileRecord& record, std::size_t index) const {
  const protocol::Tile& tile = record.tile;
  const View checksums = record.views[tile.sources.size() + index];
  return engine::intact(*crc32c_, record.views[tile.checksums[index].source], checksums, tile.lead,
                        tile.stream);
}

void TileReducer::add_group(TileRecord& record) {
  outputs_.assign(1, record.partial.data());
  summation::Reduction reduction = reduction_of(record);
  reduction.partial_result = true;
  reduction.outputs = outputs_;
  summation::reduce(*kernels_, reduction);
}

void TileReducer::reduce(TileRecord& record, std::span<const transport::Landing> landings,
                         std::byte* own) {
  const protocol::Tile& tile = record.tile;
  add_direct_outputs(record, landings);
  if (record.staged) outputs_.push_back(record.staging.data());
  if (tile.partial) outputs_.push_back(own);
  record.result = record.staging.data();
  if (!outputs_.empty()) {
    summation::Reduction reduction = reduction_of(record);
    reduction.partial_result = tile.partial;
    store(record, reduction);
  }
  place_stats(record, landings);
}

// The kernels copy the result: the sum of one input is the input. They also make its statistics.
void TileReducer::copy(TileRecord& record, std::span<const transport::Landing> landings,
                       std::byte* own) {
  const protocol::Tile& tile = record.tile;
  add_direct_outputs(record, landings);
  if (outputs_.empty() && tile.stats_landings.empty()) return;
  if (outputs_.empty()) outputs_.push_back(own);  // a copy onto itself
  const Span result{record.result, tile.count * element_bytes(tile.type)};
  const View view(&result, 1);
  summation::Reduction reduction;
  reduction.inputs = {&view, 1};
  store(record, reduction);
  place_stats(record, landings);
}

// Sets outputs_ to the results that the kernels can store at their receivers.
void TileReducer::add_direct_outputs(const TileRecord& record,
                                     std::span<const transport::Landing> landings) {
  outputs_.clear();
  for (const auto& landing : landings.first(record.tile.landings.size())) {
    if (landing.direct != nullptr) outputs_.push_back(landing.direct);
  }
}

// Reduces to outputs_, with the statistics that the tile needs.
void TileReducer::store(TileRecord& record, summation::Reduction& reduction) const {
  const protocol::Tile& tile = record.tile;
  reduction.type = tile.type;
  reduction.count = tile.count;
  reduction.outputs = outputs_;
  reduction.stream_outputs = tile.stream;
  if (!tile.stats_landings.empty()) {
    record.stats.resize(stats_blocks(tile.count));
    reduction.stats = record.stats;
  }
  summation::reduce(*kernels_, reduction);
}

void TileReducer::place_stats(TileRecord& record, std::span<const transport::Landing> landings) {
  for (const auto& landing : landings.subspan(record.tile.landings.size())) {
    if (landing.direct == nullptr) continue;
    std::memcpy(landing.direct, record.stats.data(), landing.target.bytes);
  }
}

}  // namespace tally::engine
