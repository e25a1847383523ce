// The plan of a job as its nodes report it: the nodes that take part, and the trees. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "control/plan/model/plan.h"
#include "perf/prediction/plan_facts.h"

namespace tally::perf {

struct PlacedNode {
  std::string name;
  std::string host;
  nlohmann::json job;  // as the node reports it
};

// The newest epoch of the job. Empty when the answers contain no plan.
struct PlacedJob {
  std::uint64_t epoch = 0;
  std::uint64_t split_bytes = 0;
  std::size_t trees = 0;
  std::vector<PlacedNode> nodes;
};

PlacedJob placed_job(const PlanFacts& facts);

// Returns why the nodes of the job do not report a whole plan; empty when they do.
std::string why_not_whole(const PlanFacts& facts, const PlacedJob& job);

// The vertices are the ranks, then the nodes. Each tree has its share of the bytes.
struct PlacedTrees {
  std::vector<plan::Tree> trees;
  std::vector<double> shares;
};

// Merges the copies of a tree at a node's shards into one tree. Empty when the reports of the nodes
// do not make trees.
PlacedTrees trees_of(const PlacedJob& job, std::size_t ranks);

}  // namespace tally::perf
