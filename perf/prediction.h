// What the plan of a job promises: the time of an all-reduce, and what each NIC and each link that
// is known carries of it, beside which tally-perf sets what it measured. The sums are those of
// control/plan/load.h, for the trees that the nodes say they have a place in. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "control/plan/load.h"
#include "perf/plan_facts.h"

namespace tally::perf {

// One direction of a machine's NIC, or of a link between switches, or what a node sums.
struct LinkLoad {
  std::string what;     // "out of a", "switch 3 -> switch 4", "sums of a"
  double capacity = 0;  // bytes per second; 0: unknown
  double bytes = 0;     // per byte of operation
  double busy = 0;      // share of the predicted time; 0 where that is not known
};

struct Prediction {
  std::string why_none;  // why there is no time: what is not known, and the remedy; empty: there is
  std::string note;  // what the time does not take into account; empty: nothing is known of that
  std::uint64_t epoch = 0;
  std::size_t nodes = 0;  // 0: nothing is known of a plan
  std::size_t trees = 0;
  std::uint64_t split_bytes = 0;  // operations from here on are divided over all trees
  std::vector<LinkLoad> links;    // those that carry anything, the busiest first
  std::string binds;              // of links
  plan::ClassLoad load;
  double chunk = 256 << 10;  // bytes

  // Of an operation that is divided over all trees. Precondition: there is a time.
  double seconds(std::uint64_t bytes) const;
};

Prediction predict(const PlanFacts& facts);

nlohmann::json to_json(const Prediction& prediction);
// Of an operation of `bytes` that took `seconds`: what each link carried a second, and how busy
// that is. Precondition, here and below: there is a time.
nlohmann::json links_in(const Prediction& prediction, std::uint64_t bytes, double seconds);

// Lines for a person, each with "# " in front.
std::string render(const Prediction& prediction);
// As links_in(), for the busiest.
std::string render_links_in(const Prediction& prediction, std::uint64_t bytes, double seconds);

}  // namespace tally::perf
