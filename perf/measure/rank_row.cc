#include "perf/measure/rank_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "perf/gradients/hash.h"

namespace tally::perf {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankRow, times, iterations, elapsed, checked, wrong, stray, hash,
                                   sum_of_squares, nonfinite, operations, operation_time,
                                   complaints)

namespace {

constexpr std::size_t kMaxComplaints = 5;

// Computes the row's hash from the ranks' hashes. Complains when ranks should agree and do not.
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
    complaints.push_back(fmt::format("rank {} got other statistics than rank 0", rank));
  }
}

std::vector<Nanos> reported_times(const Options& options, const Row& row,
                                  std::span<const RankRow> ranks) {
  if (options.stream) {
    std::vector<Nanos> all;
    for (const RankRow& rank : ranks) all.insert(all.end(), rank.times.begin(), rank.times.end());
    return all;
  }
  std::vector<std::vector<Nanos>> times;
  for (const RankRow& rank : ranks) times.push_back(rank.times);
  std::vector<Nanos> slow = slowest(times);
  // Of several equal operations at once, the time of one is reported. A model's step is reported
  // whole.
  if (options.models.empty()) {
    for (Nanos& time : slow) time /= static_cast<Nanos>(row.buckets.size());
  }
  return slow;
}

// GB/s of all operations over the whole time of the slowest rank.
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

void complain(RankRow& row, std::string complaint) {
  if (row.complaints.size() < kMaxComplaints) row.complaints.push_back(std::move(complaint));
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
    for (const std::string& complaint : one.complaints) {
      all.complaints.push_back(fmt::format("rank {}: {}", rank, complaint));
    }
  }
  all.breakdown = break_down(ranks[0].node, operations, operation_time);
  const bool sizes = options.models.empty();
  all.time = summarise(reported_times(options, row, ranks));
  all.iterations = ranks[0].iterations;
  all.count = sizes ? row.buckets.front().count : row.count();
  all.bytes = all.count * element_bytes(row.type);
  all.algbw =
      options.stream ? streamed(row, ranks) : gigabytes_per_second(all.bytes, all.time.p50_us);
  all.busbw = all.algbw * bus_factor(options.kind, static_cast<std::uint32_t>(ranks.size()));
  all.goodput = all.algbw * 8;
  all.hash = merge_hashes(options, ranks, all.complaints);
  if (options.stats) {
    // Ranks without a result have no statistics.
    const bool at_all = options.kind == TALLY_ALL_REDUCE;
    const RankRow& source = ranks[at_all ? 0 : options.root];
    all.sum_of_squares = source.sum_of_squares;
    all.nonfinite = source.nonfinite;
    if (at_all) compare_stats(ranks, all.complaints);
  }
  return all;
}

}  // namespace tally::perf
