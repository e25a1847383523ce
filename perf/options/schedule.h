// The schedule of a run: rows, and the operations of each row. Every rank computes the same rows
// from the same options, so ranks exchange only the options.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/element.h"
#include "client/include/tally/tally.h"
#include "control/cli/plan/workload.h"

namespace tally::perf {

using control::Workload;

// A piece of an operation: one tensor, or a part of one.
struct Segment {
  std::uint32_t stream = 0;  // of gradients (gradient.h): the tensor's index in the forward pass
  std::uint64_t first = 0;   // elements of the tensor before this piece
  std::uint64_t count = 0;
};

// One operation. Its segments follow each other without gaps.
struct Bucket {
  std::uint32_t tag = 0;
  std::uint64_t count = 0;
  std::vector<Segment> segments;
};

// Makes one operation per tensor, the last tensor first, because the backward pass makes them in
// this order.
std::vector<Bucket> tensor_buckets(const Workload& workload);

// Packs tensors in the order of the backward pass. The tensor with which a bucket reaches
// bucket_bytes closes it. This is the rule of PyTorch's DistributedDataParallel, so a bucket can be
// larger than bucket_bytes.
std::vector<Bucket> packed_buckets(const Workload& workload, ElementType type,
                                   std::uint64_t bucket_bytes);

// Makes `inflight` operations of `count` elements each.
std::vector<Bucket> equal_buckets(std::uint64_t count, std::uint32_t inflight);

// A range of elements.
struct Extent {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// Calls action(piece, elements between extent.first and the piece) for the part of every segment
// that lies in `extent` of the bucket, in order.
template <typename Action>
void for_each_piece(const Bucket& bucket, Extent extent, Action action) {
  std::uint64_t begin = 0;
  const std::uint64_t extent_end = extent.first + extent.count;
  for (const Segment& segment : bucket.segments) {
    const std::uint64_t from = std::max(begin, extent.first);
    const std::uint64_t to = std::min(begin + segment.count, extent_end);
    if (from < to) {
      action(Segment{segment.stream, segment.first + (from - begin), to - from},
             from - extent.first);
    }
    begin += segment.count;
  }
}

// The elements of a scattered or gathered operation that belong to a rank.
Extent owned_extent(std::uint64_t count, std::uint32_t rank, std::uint32_t ranks);

// The elements of an operation that the `in` and `out` buffers of a rank hold. count is 0 when a
// buffer holds none.
Extent contribution(tally_kind kind, std::uint64_t count, std::uint32_t rank, std::uint32_t ranks,
                    std::uint32_t root);
Extent result(tally_kind kind, std::uint64_t count, std::uint32_t rank, std::uint32_t ranks,
              std::uint32_t root);

// The order in which a rank posts: a permutation of the buckets. Each run of `window` buckets is
// shuffled separately. With at most `window` outstanding operations a rank can therefore always
// post the whole oldest unfinished run. Ranks with different orders therefore cannot block each
// other.
std::vector<std::size_t> shuffled_order(std::size_t buckets, std::size_t window,
                                        std::uint64_t seed);

struct Row {
  std::string workload;  // "sizes", or the name of the model
  std::string mode;      // "tensors", "buckets", or empty
  ElementType type = ElementType::kF32;
  Operation operation = Operation::kSum;
  std::vector<Bucket> buckets;

  std::uint64_t count() const;  // elements of all operations together
  std::uint64_t bytes() const { return count() * element_bytes(type); }
};

// Where the buckets lie in a buffer, the same for inputs and outputs. `guarded`: a gap behind each
// bucket detects stores beyond the end of its result. Without gaps, one bucket covers the whole
// buffer, which can then move out of a stopped node's reach.
struct Layout {
  static constexpr std::uint64_t kAlignment = 512;  // the alignment of tensors in frameworks

  Layout() = default;
  Layout(const Row& row, std::uint64_t misalign, bool guarded);

  std::vector<std::uint64_t> offsets;  // by bucket, in bytes
  std::uint64_t bytes = 0;             // of the whole buffer
};

}  // namespace tally::perf
