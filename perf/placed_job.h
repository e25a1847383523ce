// A job's plan as its nodes tell of it: who has a part in it, and its trees. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "control/plan/plan.h"
#include "perf/plan_facts.h"

namespace tally::perf {

struct PlacedNode {
  std::string name;
  std::string host;
  nlohmann::json job;  // as it tells of it
};

// The newest forming of the job. Empty where the answers are no plan.
struct PlacedJob {
  std::uint64_t epoch = 0;
  std::uint64_t split_bytes = 0;
  std::size_t trees = 0;
  std::vector<PlacedNode> nodes;
};

PlacedJob placed_job(const PlanFacts& facts);

// Why the job's nodes do not tell of a whole plan; empty where they do.
std::string why_not_whole(const PlanFacts& facts, const PlacedJob& job);

// Over ranks, then nodes, each with its share of the bytes.
struct PlacedTrees {
  std::vector<plan::Tree> trees;
  std::vector<double> shares;
};

// The copies of a tree at a node's shards are one. None where what the nodes say makes no trees.
PlacedTrees trees_of(const PlacedJob& job, std::size_t ranks);

}  // namespace tally::perf
