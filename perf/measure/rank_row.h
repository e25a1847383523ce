// The figures of one rank for a row, and the figures of the row over all ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "perf/measure/breakdown.h"
#include "perf/measure/statistics.h"
#include "perf/options/options.h"
#include "perf/options/schedule.h"

namespace tally::perf {

struct RankRow {
  std::vector<Nanos> times;  // by iteration; with --stream of single operations (Samples)
  std::uint64_t iterations = 0;
  Nanos elapsed = 0;          // of all iterations together
  std::uint64_t checked = 0;  // elements that were compared with the reference
  std::uint64_t wrong = 0;    // of the checked elements
  std::uint64_t stray = 0;    // changed bytes that belong to no result: behind results and in
                              // inputs
  std::uint64_t hash = 0;     // of this rank's result after the timed iterations
  double sum_of_squares = 0;  // from the service's statistics
  std::uint64_t nonfinite = 0;
  // With --breakdown: the operations between two queries of the node, and the sum of their times.
  std::uint64_t operations = 0;
  Nanos operation_time = 0;
  NodeTotals node;                      // what the node counted between the queries; only at rank 0
  std::vector<std::string> complaints;  // texts, only the first few
};

nlohmann::json to_json(const RankRow& row);
RankRow rank_row_from_json(const nlohmann::json& json);

// Adds a text for a person. Keeps only a few, so that the output of a failed run stays readable.
void complain(RankRow& row, std::string complaint);

struct Measurement {
  // Of the slowest rank, iteration by iteration, divided by --inflight. With --stream: of all
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
  double ceiling = 0;                   // GB/s; 0 when not measured
  double predicted_us = 0;              // comparable to `time`; 0 when there is no prediction
  std::vector<std::string> complaints;  // each begins with the rank; empty when nothing is wrong
};

// Merges the figures of all ranks. Adds a complaint when ranks that must have the same bits differ.
// Precondition: one RankRow per rank, in rank order.
Measurement merge(const Options& options, const Row& row, std::span<const RankRow> ranks);

}  // namespace tally::perf
