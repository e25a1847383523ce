// --breakdown: where the time of an operation goes, as seen from both ends. The node divides the
// time between a rank's notice and the completion (node.metrics); what the rank's own clock shows
// beyond that is the two wake-ups. docs/metrics.md defines the figures.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "client/rpc_channel.h"
#include "perf/options.h"

namespace tally::perf {

// What the node has counted for the job, up to a moment or between two.
struct NodeTotals {
  std::uint64_t parts = 0;
  std::uint64_t bytes = 0;
  Nanos waiting = 0;
  Nanos queueing = 0;
  Nanos pulling = 0;
  Nanos summing = 0;
  Nanos pushing = 0;
  double cycles_per_ns = 0;
  std::vector<std::uint64_t> times_last;  // by rank
  std::vector<Nanos> lateness;            // by rank, of all these times together

  NodeTotals& operator+=(const NodeTotals& more);
  // What was counted since `before`.
  NodeTotals since(const NodeTotals& before) const;
};

nlohmann::json to_json(const NodeTotals& totals);
NodeTotals node_totals_from_json(const nlohmann::json& json);

// A connection to ask the node on.
class NodeMetrics {
 public:
  // Throws a Failure when the node cannot be reached.
  explicit NodeMetrics(const Options& options);

  // Throws a Failure when the node does not answer, or is too old to know.
  NodeTotals read();

 private:
  const Options& options_;
  client::RpcChannel channel_;
};

// How often a rank was the last, and by how much on average.
struct Lateness {
  std::uint32_t rank = 0;
  std::uint64_t times_last = 0;
  double mean_us = 0;
};

// Of the mean operation at the mean rank, in us. The stages and waking add up to `total`.
struct Breakdown {
  double total = 0;  // from before the post until the completion is taken
  double waiting = 0;
  double queueing = 0;
  double pulling = 0;
  double summing = 0;
  double pushing = 0;
  double waking = 0;
  double cycles_per_byte = 0;   // of input summed
  std::vector<Lateness> ranks;  // empty: nothing was measured
};

// `operations` of all ranks together took `time` together, by their own clocks.
Breakdown break_down(const NodeTotals& node, std::uint64_t operations, Nanos time);

nlohmann::json to_json(const Breakdown& breakdown);

// "r2 63% 4.1us": who was last most often.
std::string latest_rank(const Breakdown& breakdown);

}  // namespace tally::perf
