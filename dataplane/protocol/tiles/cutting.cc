#include "dataplane/protocol/tiles/cutting.h"

#include <algorithm>

#include "base/block_stats.h"
#include "dataplane/partition/granules.h"

namespace tally::protocol {
namespace {

constexpr std::uint64_t kSlowTiles = 4;
constexpr std::uint64_t kBlockStatsBytes = sizeof(BlockStats);
static_assert(kCutElements == kStatsBlock);

// Adds the checksums of the tile's next source.
void add_checksums(const Shape& shape, const Announcement& a, Tile& tile) {
  const Granules granules = granules_of(shape, a.rank, {tile.first, tile.count});
  const std::uint64_t offset =
      checksums_offset(shape.count, a.wants_stats) + granules.first * sizeof(Checksum);
  tile.checksums.push_back({tile.sources.size(), Endpoint{a.member, a.side_region, offset,
                                                          granules.count * sizeof(Checksum)}});
  tile.lead = granules.lead;  // the same for all ranks: granules count from the operation's begin
}

// Adds a rank's result, and its statistics.
void add_landing(const Shape& shape, const Stretch& stretch, const Announcement& a, Tile& tile) {
  const std::uint64_t size = element_bytes(shape.type);
  const std::uint64_t offset = a.out_offset + (tile.first - result(shape, a.rank).first) * size;
  // A rank that contributes its data in place has its result already.
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

}  // namespace

// Between vertices a tile fits a buffer, also as a partial sum. So it is not too large for any
// vertex (BufferLayout). A slow job can also have several tiles in flight.
std::uint64_t tile_elements(const AggregatorConfig& config, const Job& job,
                            const OperationRecord& operation, std::uint64_t allowance, bool fine) {
  const Shape& shape = operation.shape;
  const Vertex& root = job.vertex(operation);
  std::uint64_t bytes = tile_bytes(config, root.pace, root.height, operation.children);
  if (fine) bytes = std::min(bytes, TileSizing::kFineTile / operation.children);
  const std::uint64_t sources = std::min<std::uint64_t>(operation.children, kGroupSources);
  bytes = std::min(bytes, allowance / (kSlowTiles * sources));
  std::uint64_t elements = bytes / element_bytes(shape.type);
  if (job.has_child_nodes(operation.vertex)) {
    elements = std::min(elements, job.spec.buffers.bytes / element_bytes(partial_type(shape)));
  }
  return std::max(elements / kCutElements * kCutElements, kCutElements);
}

void begin_tile(const Job& job, PoolIndex index, std::uint64_t first, std::uint64_t count,
                Tile& tile) {
  const OperationRecord& operation = job.table[index];
  tile.job = job.id;
  tile.operation = index;
  tile.type = operation.shape.type;
  tile.reduction = operation.shape.operation;
  tile.divisor = job.positions[operation.vertex].ranks;
  tile.first = first;
  tile.count = count;
  const std::uint64_t bytes = operation.shape.count * element_bytes(operation.shape.type);
  tile.operation_bytes = job.spec.eager_results ? bytes : 0;
  tile.phase = Tile::Phase::kPulling;
  tile.partial_type = partial_type(operation.shape);
  tile.partials = 0;
  tile.partial = false;
  tile.sources.clear();
  tile.checksums.clear();
  tile.landings.clear();
  tile.stats_landings.clear();
  tile.below.clear();
  tile.members.clear();
}

void move_bytes(Tile& tile) {
  tile.count *= element_bytes(tile.type);
  tile.type = tile.partial_type = ElementType::kU8;
  tile.reduction = Operation::kSum;  // the sum of one input is the input
}

// Ranks come before the child nodes in the list of announcements. A rank below both vertices of a
// root with a result tree is a member once.
void add_ranks(const Job& job, const OperationRecord& operation, const Stretch& stretch, bool pulls,
               Tile& tile) {
  const Shape& shape = operation.shape;
  const TreePosition& position = job.position(operation);
  const TreePosition* const sums =
      position.sums || position.other == kNoVertex ? nullptr : &job.positions[position.other];
  const std::uint64_t size = element_bytes(shape.type);
  for (PoolIndex i = operation.announcements; i != kNone; i = job.table.announcement(i).next) {
    const Announcement& a = job.table.announcement(i);
    if (job.is_child_node(a.rank)) break;
    const bool contributes = pulls && position.sums && stretch.contributors.has(a.rank);
    const bool receives = position.results && stretch.receivers.has(a.rank);
    const bool is_member_already =
        sums != nullptr && sums->child_of[a.rank] == a.rank && stretch.contributors.has(a.rank);
    if (contributes || (receives && !is_member_already)) tile.members.push_back(a.member);
    if (contributes) {
      if (a.has_checksums) add_checksums(shape, a, tile);
      const std::uint64_t offset =
          a.in_offset + (tile.first - contribution(shape, a.rank).first) * size;
      tile.sources.push_back(Endpoint{a.member, a.in_region, offset, tile.count * size, a.cookie});
    }
    if (receives) add_landing(shape, stretch, a, tile);
  }
}

}  // namespace tally::protocol
