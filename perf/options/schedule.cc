#include "perf/options/schedule.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <utility>

namespace tally::perf {

std::vector<Bucket> tensor_buckets(const Workload& workload) {
  std::vector<Bucket> buckets;
  for (auto stream = static_cast<std::uint32_t>(workload.tensors.size()); stream-- > 0;) {
    const std::uint64_t count = workload.tensors[stream].count;
    buckets.push_back(Bucket{stream, count, {Segment{stream, 0, count}}});
  }
  return buckets;
}

std::vector<Bucket> packed_buckets(const Workload& workload, ElementType type,
                                   std::uint64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  Bucket open;
  const auto close = [&] {
    if (open.segments.empty()) return;
    open.tag = static_cast<std::uint32_t>(buckets.size());
    buckets.push_back(std::exchange(open, Bucket{}));
  };
  for (const Bucket& tensor : tensor_buckets(workload)) {
    open.segments.push_back(tensor.segments.front());
    open.count += tensor.count;
    if (open.count * element_bytes(type) >= bucket_bytes) close();
  }
  close();
  return buckets;
}

std::vector<Bucket> equal_buckets(std::uint64_t count, std::uint32_t inflight) {
  std::vector<Bucket> buckets;
  for (std::uint32_t tag = 0; tag < inflight; ++tag) {
    buckets.push_back(Bucket{tag, count, {Segment{tag, 0, count}}});
  }
  return buckets;
}

Extent owned_extent(std::uint64_t count, std::uint32_t rank, std::uint32_t ranks) {
  const auto from = [&](std::uint64_t r) { return count * r / ranks; };
  return Extent{from(rank), from(std::uint64_t{rank} + 1) - from(rank)};
}

Extent contribution(tally_kind kind, std::uint64_t count, std::uint32_t rank, std::uint32_t ranks,
                    std::uint32_t root) {
  if (kind == TALLY_ALL_GATHER) return owned_extent(count, rank, ranks);
  if (kind == TALLY_BROADCAST && rank != root) return Extent{};
  return Extent{0, count};
}

Extent result(tally_kind kind, std::uint64_t count, std::uint32_t rank, std::uint32_t ranks,
              std::uint32_t root) {
  if (kind == TALLY_REDUCE_SCATTER) return owned_extent(count, rank, ranks);
  if (kind == TALLY_REDUCE && rank != root) return Extent{};
  return Extent{0, count};
}

std::vector<std::size_t> shuffled_order(std::size_t buckets, std::size_t window,
                                        std::uint64_t seed) {
  std::vector<std::size_t> order(buckets);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(seed);
  for (std::size_t begin = 0; begin < buckets; begin += window) {
    const std::size_t size = std::min(window, buckets - begin);
    std::ranges::shuffle(std::span(order).subspan(begin, size), random);
  }
  return order;
}

std::uint64_t Row::count() const {
  std::uint64_t sum = 0;
  for (const Bucket& bucket : buckets) sum += bucket.count;
  return sum;
}

Layout::Layout(const Row& row, std::uint64_t misalign, bool guarded) {
  const std::uint64_t least_gap = guarded ? 1 : 0;
  std::uint64_t at = misalign;
  for (const Bucket& bucket : row.buckets) {
    offsets.push_back(at);
    const std::uint64_t end = at + bucket.count * element_bytes(row.type);
    at = (end + least_gap + kAlignment - 1) / kAlignment * kAlignment + misalign;
  }
  bytes = std::max<std::uint64_t>(
      at, 1);  // a barrier has no data, and yet a region has at least one byte
}

}  // namespace tally::perf
