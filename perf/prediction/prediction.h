// The prediction of a job's plan: the time of an all-reduce, and the bytes of each NIC and each
// known link. tally-perf prints its measurements beside it. The sums are those of
// control/plan/model/load.h, for the trees that the nodes report. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "control/plan/model/load.h"
#include "perf/prediction/plan_facts.h"

namespace tally::perf {

// One direction of a machine's NIC or of a link between switches, or the sums of a node.
struct LinkLoad {
  std::string what;     // "out of a", "switch 3 -> switch 4", "sums of a"
  double capacity = 0;  // bytes per second; 0 when unknown
  double bytes = 0;     // per byte of operation
  double busy = 0;      // share of the predicted time; 0 when unknown
};

struct Prediction {
  std::string why_none;  // why there is no time: the missing fact and the remedy; empty when there
                         // is a time
  std::string note;  // what the time does not take into account; empty when nothing is known to be
                     // missing
  std::uint64_t epoch = 0;
  std::size_t nodes = 0;  // 0 when no plan is known
  std::size_t trees = 0;
  std::uint64_t split_bytes = 0;  // operations of this size and more are divided over all trees;
                                  // bytes
  std::vector<LinkLoad> links;    // those that carry bytes, the busiest first
  std::string binds;              // name of the busiest link
  plan::ClassLoad load;
  double chunk = 256 << 10;  // bytes

  // The predicted time of an operation of `bytes` that is divided over all trees. Precondition:
  // why_none is empty.
  double seconds(std::uint64_t bytes) const;
};

Prediction predict(const PlanFacts& facts);

nlohmann::json to_json(const Prediction& prediction);
// For an operation of `bytes` that took `seconds`: the bytes per second of each link, and how busy
// it was. Precondition, here and below: why_none is empty.
nlohmann::json links_in(const Prediction& prediction, std::uint64_t bytes, double seconds);

// Lines for a person, each with "# " in front.
std::string render(const Prediction& prediction);
// As links_in(), for the busiest links.
std::string render_links_in(const Prediction& prediction, std::uint64_t bytes, double seconds);

}  // namespace tally::perf
