#include "perf/prediction/placed_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/cli/common/tables.h"
#include "control/plan/model/tree.h"

namespace tally::perf {
namespace {

using control::list_at;
using control::number_at;
using control::text_at;
using nlohmann::json;

json newest(const json& jobs, const std::string& name) {
  json found;
  for (const json& job : jobs.is_array() ? jobs : json::array()) {
    if (text_at(job, "name") == name && number_at(job, "epoch") >= number_at(found, "epoch")) {
      found = job;
    }
  }
  return found;
}

// The trees that the node is in, by number, each with its vertex. Nodes report no vertex for a
// star.
std::vector<std::pair<std::size_t, json>> places_of(const json& job) {
  std::vector<std::pair<std::size_t, json>> places;
  const json trees = list_at(job, "trees"), vertices = list_at(job, "vertices");
  for (std::size_t i = 0; i < trees.size(); ++i) {
    if (!trees[i].is_number_unsigned()) continue;
    places.emplace_back(trees[i].get<std::size_t>(), i < vertices.size() ? vertices[i] : json());
  }
  return places;
}

double share_of(const json& job, std::size_t tree) {
  const json weights = list_at(job, "weights");
  const bool known = tree < weights.size() && weights[tree].is_number();
  return known ? weights[tree].get<double>() / plan::kWeightUnit : 0;
}

// The share of the trees that have their root at the node.
double share_of(const json& job) {
  double share = 0;
  for (const auto& [tree, place] : places_of(job)) {
    if (text_at(place, "above").empty()) share += share_of(job, tree);
  }
  return share;
}

// Sets the parent of the ranks that are a vertex's children. In a star these are all ranks.
void place_children(const json& place, std::size_t ranks, std::int32_t node, plan::Parents& up) {
  if (!place.is_object()) std::fill_n(up.begin(), ranks, node);
  for (const json& run : list_at(place, "ranks")) {
    const bool is_run = run.is_array() && run.size() == 2 && run[0].is_number_unsigned() &&
                        run[1].is_number_unsigned();
    const std::uint64_t first = is_run ? run[0].get<std::uint64_t>() : ranks;
    const std::uint64_t end = is_run ? std::min(first + run[1].get<std::uint64_t>(), ranks) : 0;
    for (std::uint64_t rank = first; rank < end; ++rank) up[rank] = node;
  }
}

// The trees by their numbers, also those without a share.
struct NumberedTree {
  plan::Parents up;
  double share = 0;
};

std::vector<NumberedTree> numbered_trees(const PlacedJob& job, std::size_t ranks) {
  std::vector<NumberedTree> trees(job.trees);
  for (NumberedTree& one : trees) one.up.assign(ranks + job.nodes.size(), plan::kIsAbsent);
  for (std::size_t i = 0; i < job.nodes.size(); ++i) {
    const auto node = static_cast<std::int32_t>(ranks + i);
    for (const auto& [number, place] : places_of(job.nodes[i].job)) {
      if (number >= trees.size()) continue;
      NumberedTree& one = trees[number];
      one.share = share_of(job.nodes[i].job, number);
      const std::string above = text_at(place, "above");
      const auto parent = std::find_if(job.nodes.begin(), job.nodes.end(),
                                       [&](const auto& other) { return other.name == above; });
      one.up[ranks + i] = above.empty()
                              ? plan::kIsRoot
                              : static_cast<std::int32_t>(
                                    ranks + static_cast<std::size_t>(parent - job.nodes.begin()));
      place_children(place, ranks, node, one.up);
    }
  }
  return trees;
}

}  // namespace

PlacedJob placed_job(const PlanFacts& facts) {
  PlacedJob placed;
  for (std::size_t i = 0; i < facts.jobs.size() && i < facts.members.size(); ++i) {
    const json job = newest(facts.jobs[i], facts.job);
    const auto epoch = static_cast<std::uint64_t>(std::max(0.0, number_at(job, "epoch")));
    if (!job.is_object() || epoch < placed.epoch) continue;
    if (epoch > placed.epoch) placed = {.epoch = epoch, .nodes = {}};
    const json& member = facts.members[i];
    placed.split_bytes = static_cast<std::uint64_t>(std::max(0.0, number_at(job, "split_bytes")));
    placed.trees = list_at(job, "weights").size();
    placed.nodes.push_back({text_at(member, "name"), text_at(member, "host"), job});
  }
  return placed;
}

// The reason why the job's nodes do not report a whole plan; empty when they do.
std::string why_not_whole(const PlanFacts& facts, const PlacedJob& job) {
  double shares = 0;
  for (const PlacedNode& node : job.nodes) shares += share_of(node.job);
  if (job.trees > 0 && shares > 1 - 1e-9 && shares < 1 + 1e-9) return {};
  std::string silent;
  for (std::size_t i = 0; i < facts.jobs.size() && i < facts.members.size(); ++i) {
    if (facts.jobs[i].is_array()) continue;
    silent += (silent.empty() ? "" : ", ") + text_at(facts.members[i], "name");
  }
  if (!silent.empty()) return fmt::format("of its nodes {} gave no answer: is it running?", silent);
  return fmt::format(
      "its nodes tell of {:.0f} % of its plan (epoch {}, {} nodes): it is changing just now, or "
      "one of them is older than this tally-perf",
      100 * shares, job.epoch, job.nodes.size());
}

PlacedTrees trees_of(const PlacedJob& job, std::size_t ranks) {
  PlacedTrees found;
  for (NumberedTree& one : numbered_trees(job, ranks)) {
    if (one.share <= 0) continue;
    if (!plan::Shape::of(one.up, "up").ok()) return {};
    const auto same = std::find_if(found.trees.begin(), found.trees.end(),
                                   [&](const plan::Tree& other) { return other.up == one.up; });
    if (same != found.trees.end()) {
      found.shares[static_cast<std::size_t>(same - found.trees.begin())] += one.share;
      continue;
    }
    found.trees.push_back({.up = std::move(one.up), .down = {}});
    found.shares.push_back(one.share);
  }
  return found;
}

}  // namespace tally::perf
