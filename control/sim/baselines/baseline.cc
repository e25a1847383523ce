#include "control/sim/baselines/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "control/sim/baselines/builders.h"

namespace tally::simulator {
namespace {

constexpr std::array<Baseline, 10> kBaselines = {{
    {"ring", "a ring over the workers by rising id", ring},
    {"halving-doubling", "recursive halving, then doubling, by distance", halving_doubling},
    {"double-binary-tree", "two complementary binary trees of half the bytes each (NCCL)",
     double_binary_tree},
    {"hierarchical-ring", "rings in the racks, across them, and in them again", hierarchical_ring},
    {"forestcoll", "reduce-scatter, then all-gather, over the trees of ForestColl", forestcoll},
    {"ps", "one parameter server: the first helper, else the first worker", single_server},
    {"ps-sharded", "parameter servers at all helpers, with equal shares", sharded_servers},
    {"ps-colocated", "parameter servers at all workers, with equal shares", colocated_servers},
    {"byteps", "servers at all machines, with BytePS's shares", byteps},
    {"byteps-hash", "the same with parts of 4096000 bytes, placed by BytePS's hash of their keys",
     byteps_hash},
}};

// Returns the first pair of machines that exchange bytes and have no route; both 0 when there is
// none.
std::pair<plan::VertexId, plan::VertexId> unjoined(const Work& work, const plan::Network& network) {
  plan::Routes routes(network);
  const auto lacks = [&](plan::VertexId a, plan::VertexId b) {
    return a != b && !routes.has(a, b);
  };
  if (const auto* transfers = std::get_if<Transfers>(&work)) {
    for (const Transfer& one : transfers->list) {
      if (lacks(one.from, one.to)) return {one.from, one.to};
    }
    return {};
  }
  for (const plan::Tree& tree : std::get<TreeSet>(work).trees) {
    for (plan::VertexId id = 0; id < tree.up.size(); ++id) {
      const auto up = static_cast<plan::VertexId>(std::max(tree.up[id], 0));
      const auto down = static_cast<plan::VertexId>(std::max(tree.way_down()[id], 0));
      if (tree.up[id] >= 0 && lacks(id, up)) return {id, up};
      if (tree.way_down()[id] >= 0 && lacks(down, id)) return {down, id};
    }
  }
  return {};
}

}  // namespace

std::vector<plan::VertexId> Question::helpers() const {
  std::vector<plan::VertexId> helpers;
  for (plan::VertexId id = 0; id < network.machines(); ++id) {
    if (network.vertices[id].role == plan::Role::kHelper) helpers.push_back(id);
  }
  return helpers;
}

std::span<const Baseline> baselines() {
  return kBaselines;
}

std::string baseline_names() {
  std::string names;
  for (const Baseline& one : kBaselines) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
  }
  return names;
}

Result<Work> make_baseline(std::string_view name, const Question& question) {
  const auto found = std::find_if(kBaselines.begin(), kBaselines.end(),
                                  [name](const Baseline& one) { return one.name == name; });
  if (found == kBaselines.end()) {
    return invalid(fmt::format("no baseline \"{}\"; there are {}", name, baseline_names()));
  }
  auto work = found->make(question);
  if (!work) return Error{work.status(), fmt::format("{}: {}", name, work.error().message)};
  if (const auto [from, to] = unjoined(*work, question.network); from != to) {
    return invalid(fmt::format("{}: no route from {} to {}; give the network more links", name,
                               question.network.name_of(from), question.network.name_of(to)));
  }
  return work;
}

}  // namespace tally::simulator
