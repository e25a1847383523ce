#include "perf/rank_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "perf/hash.h"

namespace tally::perf {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankRow, times, iterations, elapsed, checked, wrong, stray, hash,
                                   sum_of_squares, nonfinite, operations, operation_time,
                                   complaints)

namespace {

constexpr std::size_t kMaxComplaints = 5;

// The row's hash out of the ranks' hashes; complains when ranks should agree and do not.
std::uint64_t merge_hashes(const Options& options, std::span<const RankRow> ranks,
                           std::vector<std::string>& complaints) {
  if (options.kind == TALLY_REDUCE) return ranks[options.root].hash;
  std::vector<std::uint64_t> hashes;
  for (const RankRow& rank : ranks) hashes.push_back(rank.hash);
  if (options.kind == TALLY_REDUCE_SCATTER) return combine_hashes(hashes);
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    complaints.push_back(fmt::format("rank {} has another result than rank 0: {:016x}, {:016x}",
                                     rank, hashes[rank], hashes[0]));
  }
  return hashes[0];
}

void compare_stats(std::span<const RankRow> ranks, std::vector<std::string>& complaints) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const auto bits = std::bit_cast<std::uint64_t>(ranks[rank].sum_of_squares);
    if (bits == std::bit_cast<std::uint64_t>(ranks[0].sum_of_squares) &&
        ranks[rank].nonfinite == ranks[0].nonfinite) {
      continue;
    }
    complaints.push_back(fmt::format("rank {} was told other statistics than rank 0", rank));
  }
}

std::vector<Nanos> told_times(const Options& options, const Row& row,
                              std::span<const RankRow> ranks) {
  if (options.stream) {
    std::vector<Nanos> all;
    for (const RankRow& rank : ranks) all.insert(all.end(), rank.times.begin(), rank.times.end());
    return all;
  }
  std::vector<std::vector<Nanos>> times;
  for (const RankRow& rank : ranks) times.push_back(rank.times);
  std::vector<Nanos> slow = slowest(times);
  // Of several equal operations at once the time of one is told; a model's step is told whole.
  if (options.models.empty()) {
    for (Nanos& time : slow) time /= static_cast<Nanos>(row.buckets.size());
  }
  return slow;
}

// GB/s of all operations in all the time of the slowest rank.
double streamed(const Row& row, std::span<const RankRow> ranks) {
  Nanos longest = 0;
  for (const RankRow& rank : ranks) longest = std::max(longest, rank.elapsed);
  return gigabytes_per_second(row.bytes() * ranks[0].iterations,
                              static_cast<double>(longest) / kMicrosecond);
}

}  // namespace

nlohmann::json to_json(const RankRow& row) {
  nlohmann::json json = row;
  json["node"] = to_json(row.node);
  return json;
}
RankRow rank_row_from_json(const nlohmann::json& json) {
  auto row = json.get<RankRow>();
  row.node = node_totals_from_json(json.at("node"));
  return row;
}

void complain(RankRow& row, std::string words) {
  if (row.complaints.size() < kMaxComplaints) row.complaints.push_back(std::move(words));
}

Measurement merge(const Options& options, const Row& row, std::span<const RankRow> ranks) {
  Measurement all;
  std::uint64_t operations = 0;
  Nanos operation_time = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankRow& one = ranks[rank];
    all.checked += one.checked;
    all.wrong += one.wrong;
    all.stray += one.stray;
    operations += one.operations;
    operation_time += one.operation_time;
    for (const std::string& words : one.complaints) {
      all.complaints.push_back(fmt::format("rank {}: {}", rank, words));
    }
  }
  all.breakdown = break_down(ranks[0].node, operations, operation_time);
  const bool sizes = options.models.empty();
  all.time = summarise(told_times(options, row, ranks));
  all.iterations = ranks[0].iterations;
  all.count = sizes ? row.buckets.front().count : row.count();
  all.bytes = all.count * element_bytes(row.type);
  all.algbw =
      options.stream ? streamed(row, ranks) : gigabytes_per_second(all.bytes, all.time.p50_us);
  all.busbw = all.algbw * bus_factor(options.kind, static_cast<std::uint32_t>(ranks.size()));
  all.goodput = all.algbw * 8;
  all.hash = merge_hashes(options, ranks, all.complaints);
  if (options.stats) {
    // Whoever has no result has no statistics of it either.
    const bool all_told = options.kind == TALLY_ALL_REDUCE;
    const RankRow& told = ranks[all_told ? 0 : options.root];
    all.sum_of_squares = told.sum_of_squares;
    all.nonfinite = told.nonfinite;
    if (all_told) compare_stats(ranks, all.complaints);
  }
  return all;
}

}  // namespace tally::perf
