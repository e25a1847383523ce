// For tests of layouts: makes members and plans of machines.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "control/coordinator/layout/layout.h"
#include "control/plan/stars/star_planner.h"
#include "tests/support/control/test_plans.h"

namespace tally::control {

inline Member member_named(const char* name, std::uint32_t shards = 2) {
  Member member;
  member.name = name;
  member.host = std::string("host-") + name;
  member.tcp = std::string("tcp:") + name + ":1";
  member.shards = shards;
  return member;
}

inline Members members(std::initializer_list<const char*> names, std::uint32_t shards = 2) {
  Members all;
  for (const char* name : names) all[all.size() + 1] = member_named(name, shards);
  return all;
}

// A plan whose machines are first the workers w0, w1, ..., then the helpers h0, h1, ...
inline MachinePlan machines(std::size_t workers, std::size_t helpers) {
  MachinePlan made;
  auto list = plan::equal_machines(workers, helpers, 1e9);
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].name = i < workers ? "w" + std::to_string(i) : "h" + std::to_string(i - workers);
  }
  made.file.epoch = 7;
  made.file.network = plan::star_network(list);
  plan::Domain& domain = made.file.domains.emplace_back();
  domain.name = "all";
  domain.workers.resize(workers);
  std::iota(domain.workers.begin(), domain.workers.end(), 0U);
  return made;
}

inline void add_class(MachinePlan& plan, std::optional<std::uint64_t> max_bytes,
                      std::vector<plan::Tree> trees) {
  plan.file.domains[0].classes.push_back({max_bytes, 65536, 0, std::move(trees)});
}

// Random shapes over these machines. plan::validate() would refuse some of them: those with helpers
// only.
inline std::vector<plan::Tree> random_trees(std::mt19937_64& random, std::size_t workers,
                                            std::size_t helpers, std::uint32_t count) {
  std::vector<plan::Tree> trees;
  for (std::uint32_t i = 0; i < count; ++i) {
    // Each machine gets a random parent among the machines that are already in the tree. Then
    // helpers that are leaves are removed.
    plan::Parents up(workers + helpers, plan::kIsAbsent);
    std::vector<std::int32_t> in;
    std::vector<std::int32_t> order(workers + helpers);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (const std::int32_t id : order) {
      up[id] = in.empty() ? plan::kIsRoot : in[random() % in.size()];
      in.push_back(id);
    }
    for (bool cut = true; cut;) {
      cut = false;
      for (std::size_t id = workers; id < up.size(); ++id) {
        const auto self = static_cast<std::int32_t>(id);
        if (up[id] < 0 || std::find(up.begin(), up.end(), self) != up.end()) continue;
        up[id] = plan::kIsAbsent;
        cut = true;
      }
    }
    trees.push_back({65536 / count + (i < 65536 % count ? 1 : 0), up, {}});
  }
  return trees;
}

// Gives some of the trees another way for their results.
inline void add_ways_down(std::mt19937_64& random, std::size_t workers, std::size_t helpers,
                          std::vector<plan::Tree>& trees) {
  const auto root = [](const plan::Parents& parents) {
    return std::find(parents.begin(), parents.end(), plan::kIsRoot) - parents.begin();
  };
  for (plan::Tree& tree : trees) {
    const plan::Tree other = random_trees(random, workers, helpers, 1).front();
    if (root(other.up) == root(tree.up)) tree.down = other.up;
  }
}

}  // namespace tally::control
