#include "control/sim/baselines/byteps_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "control/cli/plan/workload.h"
#include "control/plan/stars/star_planner.h"
#include "tests/support/control/test_plans.h"

namespace tally::simulator {
namespace {

// The time of the placement over the one of the best shares. A helper sends and gets its bytes for
// each worker. A worker sends all bytes but its own, and its own to all others.
double slower_than_best(const std::string& model, std::size_t workers, std::size_t helpers) {
  std::vector<std::uint64_t> tensors;
  const auto workload = control::find_workload(model);
  if (!workload) throw std::runtime_error(workload.error().message);
  for (const control::ModelTensor& one : workload->tensors) tensors.push_back(4 * one.count);
  const double all = std::accumulate(tensors.begin(), tensors.end(), 0.0);
  const auto bytes = hashed_bytes(tensors, workers, helpers);
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), 0.0), all);
  const auto n = static_cast<double>(workers);
  double most = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto own = static_cast<double>(bytes[i]);
    most = std::max(most, i < helpers ? n * own : all + (n - 2) * own);
  }
  return most / (all * plan::star_shares(plan::equal_machines(workers, helpers, 1)).tau);
}

TEST(BytePsHash, LeavesServersUneven) {
  EXPECT_NEAR(slower_than_best("vgg16", 8, 0), 1.10, 0.01);
  for (const std::size_t helpers : {2, 4, 8}) {
    EXPECT_NEAR(slower_than_best("vgg16", 8, helpers), 1.235, 0.01) << helpers;
  }
  EXPECT_NEAR(slower_than_best("vgg16", 32, 8), 1.71, 0.01);
  EXPECT_NEAR(slower_than_best("bert-large", 32, 32), 2.98, 0.02);
}

TEST(BytePsHash, PlacesEveryPartAtAServerThatThereIs) {
  const std::uint64_t parts[] = {3 * kBytePsPart + 1, 5};
  EXPECT_EQ(hashed_bytes(parts, 1, 0), (std::vector<std::uint64_t>{3 * kBytePsPart + 6}));
  const auto alone = hashed_bytes(parts, 1, 1);
  EXPECT_EQ(alone, (std::vector<std::uint64_t>{3 * kBytePsPart + 6, 0})) << "the helper has all";
}

}  // namespace
}  // namespace tally::simulator
