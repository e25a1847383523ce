#include <utility>

#include "control/sim/baselines/builders.h"

namespace tally::simulator {
namespace {

// Returns the parent of a rank in the in-order binary tree over 0 to ranks - 1, whose root is 0.
std::int64_t parent_of(std::int64_t rank, std::int64_t ranks) {
  if (rank == 0) return plan::kIsRoot;
  std::int64_t bit = 1;
  while ((rank & bit) == 0) bit <<= 1;
  const std::int64_t up = (rank ^ bit) | (bit << 1);
  return up < ranks ? up : rank ^ bit;
}

}  // namespace

Result<Work> double_binary_tree(const Question& question) {
  const auto ranks = static_cast<std::int64_t>(question.workers.size());
  const plan::Parents none(question.network.machines(), plan::kIsAbsent);
  TreeSet set{.trees = {{0, none, {}}, {0, none, {}}},
              .bytes = {(question.bytes + 1) / 2, question.bytes / 2},
              .chunk = question.chunk};
  const bool mirrors = ranks % 2 == 0;
  // The second tree's numbers of ranks, and its own inverse or the shift back.
  const auto renamed = [&](std::int64_t rank) {
    return mirrors ? ranks - 1 - rank : (rank + ranks - 1) % ranks;
  };
  const auto back = [&](std::int64_t rank) {
    return mirrors ? ranks - 1 - rank : (rank + 1) % ranks;
  };
  const auto machine = [&](std::int64_t rank) {
    return static_cast<std::int32_t>(question.workers[static_cast<std::size_t>(rank)]);
  };
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::size_t id = question.workers[static_cast<std::size_t>(rank)];
    const std::int64_t first = parent_of(rank, ranks);
    const std::int64_t second = parent_of(renamed(rank), ranks);
    set.trees[0].up[id] = first < 0 ? plan::kIsRoot : machine(first);
    set.trees[1].up[id] = second < 0 ? plan::kIsRoot : machine(back(second));
  }
  return Work(std::move(set));
}

}  // namespace tally::simulator
