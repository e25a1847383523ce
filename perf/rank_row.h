// What one rank knows of a row, and what the row is when all ranks' knowledge is put together.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "perf/breakdown.h"
#include "perf/options.h"
#include "perf/plan.h"
#include "perf/statistics.h"

namespace tally::perf {

struct RankRow {
  std::vector<Nanos> times;  // by iteration; with --stream of single operations (Samples)
  std::uint64_t iterations = 0;
  Nanos elapsed = 0;          // in all of them together
  std::uint64_t checked = 0;  // elements compared with the reference
  std::uint64_t wrong = 0;    // of these
  std::uint64_t stray = 0;    // bytes changed that are no result's: behind results, in inputs
  std::uint64_t hash = 0;     // of this rank's result after the timed iterations
  double sum_of_squares = 0;  // as the service said
  std::uint64_t nonfinite = 0;
  // With --breakdown: operations between two looks at the node, and their times added up.
  std::uint64_t operations = 0;
  Nanos operation_time = 0;
  NodeTotals node;                      // what the node counted in between; of rank 0
  std::vector<std::string> complaints;  // in words, the first few
};

nlohmann::json to_json(const RankRow& row);
RankRow rank_row_from_json(const nlohmann::json& json);

// Words for a person: at most a few, so that a broken run stays readable.
void complain(RankRow& row, std::string words);

struct Measurement {
  // Of the slowest rank, iteration by iteration, divided by --inflight; with --stream of all
  // operations at all ranks.
  TimeSummary time;
  std::uint64_t iterations = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  double algbw = 0;    // GB/s
  double busbw = 0;    // GB/s
  double goodput = 0;  // Gbit/s per worker
  std::uint64_t checked = 0;
  std::uint64_t wrong = 0;
  std::uint64_t stray = 0;
  std::uint64_t hash = 0;
  double sum_of_squares = 0;
  std::uint64_t nonfinite = 0;
  Breakdown breakdown;
  double ceiling = 0;                   // GB/s; 0: not measured
  double predicted_us = 0;              // as time; 0: nobody knows
  std::vector<std::string> complaints;  // with the rank in front; empty: all is well
};

// Precondition: one RankRow per rank, in rank order. Ranks that should have the same bits and do
// not are complained about.
Measurement merge(const Options& options, const Row& row, std::span<const RankRow> ranks);

}  // namespace tally::perf
