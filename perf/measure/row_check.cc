// The part of RowRunner that verifies.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "perf/gradients/hash.h"
#include "perf/measure/row_runner.h"

namespace tally::perf {

void RowRunner::verify(std::uint32_t round) {
  fetch();
  for (std::size_t bucket = 0; bucket < row_.buckets.size(); ++bucket) {
    verify_result(bucket, spec(round));
    verify_surroundings(bucket);
    if (options_.in_place) continue;
    const Place place = input(bucket);
    const Expectation own{.first_rank = options_.rank, .ranks = 1, .moves_only = true};
    verify_range(bucket, place, place.extent, spec(round), own, "input");
  }
  if (!options_.stats) return;
  result_.sum_of_squares = 0;
  result_.nonfinite = 0;
  for (std::size_t bucket = 0; bucket < row_.buckets.size(); ++bucket) verify_stats(bucket);
}

void RowRunner::verify_result(std::size_t bucket, const GradientSpec& spec) {
  const Place place = output(bucket);
  if (place.extent.count == 0) return;
  const auto check = [&](Extent extent, const Expectation& expectation) {
    verify_range(bucket, place, extent, spec, expectation, "result");
    result_.checked += extent.count;
  };
  switch (options_.kind) {
    case TALLY_BROADCAST:
      return check(place.extent, {.first_rank = options_.root, .ranks = 1, .moves_only = true});
    case TALLY_ALL_GATHER:
      for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
        check(owned_extent(place.extent.count, rank, options_.ranks),
              {.first_rank = rank, .ranks = 1, .moves_only = true});
      }
      return;
    case TALLY_ALL_REDUCE:
    case TALLY_REDUCE:
    case TALLY_REDUCE_SCATTER:
      return check(place.extent,
                   {.operation = row_.operation, .first_rank = 0, .ranks = options_.ranks});
    case TALLY_BARRIER:
      return;
  }
}

void RowRunner::verify_range(std::size_t bucket, const Place& place, Extent extent,
                             const GradientSpec& spec, const Expectation& expectation,
                             const char* what) {
  const std::size_t bytes = element_bytes(row_.type);
  const std::uint64_t skipped = extent.first - place.extent.first;
  for_each_piece(row_.buckets[bucket], extent, [&](const Segment& piece, std::uint64_t at) {
    const Mismatch mismatch = compare_result(spec, expectation, piece.stream, piece.first,
                                             piece.count, place.data() + (skipped + at) * bytes);
    if (mismatch.wrong == 0) return;
    result_.wrong += mismatch.wrong;
    complain(result_, fmt::format("tag {}: {} of {} elements of the {} are wrong, the first is "
                                  "element {} of tensor {}: {:#0{}x}, not {:#0{}x}",
                                  row_.buckets[bucket].tag, mismatch.wrong, piece.count, what,
                                  mismatch.first, piece.stream, mismatch.found_bits, 2 * bytes + 2,
                                  mismatch.expected_bits, 2 * bytes + 2));
  });
}

// Checks that nothing was stored between this bucket's result and the next bucket.
void RowRunner::verify_surroundings(std::size_t bucket) {
  const std::size_t bytes = element_bytes(row_.type);
  const std::uint64_t begin = layout_.offsets[bucket];
  const std::uint64_t held =
      options_.in_place ? row_.buckets[bucket].count : output(bucket).extent.count;
  const bool last = bucket + 1 == layout_.offsets.size();
  const std::uint64_t end = last ? layout_.bytes : layout_.offsets[bucket + 1];
  const auto stray = std::count_if(out_.data + begin + held * bytes, out_.data + end,
                                   [](std::byte byte) { return byte != kPoison; });
  if (stray == 0) return;
  result_.stray += static_cast<std::uint64_t>(stray);
  complain(result_, fmt::format("tag {}: {} bytes behind the result were changed",
                                row_.buckets[bucket].tag, stray));
}

void RowRunner::verify_stats(std::size_t bucket) {
  const tally_completion& completion = completions_[bucket];
  result_.sum_of_squares += completion.sum_of_squares;
  result_.nonfinite += completion.nonfinite;
  const Place place = output(bucket);
  if (place.extent.count == 0) return;
  const ResultStats stats = result_stats(row_.type, place.data(), place.extent.count);
  // The service chooses the order within a block. 4096 additions differ by less than this.
  const double tolerance = 1e-12 * stats.sum_of_squares;
  const bool near = std::fabs(completion.sum_of_squares - stats.sum_of_squares) <= tolerance;
  if (near && completion.nonfinite == stats.nonfinite) return;
  complain(result_,
           fmt::format("tag {}: statistics {:.17g}, {} non-finite; the result has {:.17g}, "
                       "{} non-finite",
                       row_.buckets[bucket].tag, completion.sum_of_squares, completion.nonfinite,
                       stats.sum_of_squares, stats.nonfinite));
}

// Hashes tensor by tensor in the order of the forward pass. So the same gradients have the same
// hash, however they are cut into operations.
std::uint64_t RowRunner::hash_result() const {
  struct Piece {
    std::uint32_t stream;
    std::uint64_t first;
    std::uint64_t hash;
  };
  std::vector<Piece> pieces;
  const std::size_t bytes = element_bytes(row_.type);
  for (std::size_t bucket = 0; bucket < row_.buckets.size(); ++bucket) {
    const Place place = output(bucket);
    for_each_piece(row_.buckets[bucket], place.extent, [&](const Segment& p, std::uint64_t at) {
      pieces.push_back({p.stream, p.first, xxh64(place.data() + at * bytes, p.count * bytes)});
    });
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::tie(a.stream, a.first) < std::tie(b.stream, b.first);
  });
  std::vector<std::uint64_t> hashes;
  for (const Piece& piece : pieces) hashes.push_back(piece.hash);
  return hashes.empty() ? 0 : combine_hashes(hashes);
}

}  // namespace tally::perf
