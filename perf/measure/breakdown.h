// --breakdown: the stages of an operation's time, from both ends. The node divides the time between
// a rank's notice and the completion (node.metrics). The rest of the rank's own time is the two
// wake-ups. docs/metrics.md defines the figures.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "net/rpc/rpc_channel.h"
#include "perf/options/options.h"

namespace tally::perf {

// What the node has counted for the job until a moment, or between two moments.
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
  std::vector<Nanos> lateness;            // by rank; the sum over all operations of times_last

  NodeTotals& operator+=(const NodeTotals& more);
  // What was counted since `before`.
  NodeTotals since(const NodeTotals& before) const;
};

nlohmann::json to_json(const NodeTotals& totals);
NodeTotals node_totals_from_json(const nlohmann::json& json);

// A connection for queries of the node.
class NodeMetrics {
 public:
  // Throws a Failure when the node is unreachable. `options` is borrowed for the life of the
  // object.
  explicit NodeMetrics(const Options& options);

  // Throws a Failure when the node does not answer, or is too old to have the metrics.
  NodeTotals read();

 private:
  const Options& options_;
  rpc::RpcChannel channel_;
};

// How often a rank was the last, and its mean lateness.
struct Lateness {
  std::uint32_t rank = 0;
  std::uint64_t times_last = 0;
  double mean_us = 0;
};

// The mean operation at the mean rank, in us. The stages and `waking` add up to `total`.
struct Breakdown {
  double total = 0;  // from before the post until the completion is taken
  double waiting = 0;
  double queueing = 0;
  double pulling = 0;
  double summing = 0;
  double pushing = 0;
  double waking = 0;
  double cycles_per_byte = 0;   // of input that was summed
  std::vector<Lateness> ranks;  // empty when nothing was measured
};

// `operations` operations of all ranks took `time` in sum, by the clocks of the ranks.
Breakdown break_down(const NodeTotals& node, std::uint64_t operations, Nanos time);

nlohmann::json to_json(const Breakdown& breakdown);

// The rank that was most often the last: "r2 63% 4.1us".
std::string latest_rank(const Breakdown& breakdown);

}  // namespace tally::perf
