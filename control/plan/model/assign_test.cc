#include "control/plan/model/assign.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "control/plan/model/load.h"
#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

// Bytes of the tensors of ResNet-50 in f32.
std::vector<std::uint64_t> resnet50() {
  std::ifstream file(TALLY_RESNET50);
  const auto document = nlohmann::json::parse(file, nullptr, false);
  std::vector<std::uint64_t> sizes;
  for (const auto& tensor : document["tensors"]) {
    std::uint64_t bytes = 4;
    for (const auto& dimension : tensor[1]) bytes *= dimension.get<std::uint64_t>();
    sizes.push_back(bytes);
  }
  return sizes;
}

TEST(Assign, TheLargestTensorGoesToTheTreeThatEndsFirst) {
  const std::vector<std::uint64_t> sizes = {10, 40, 30, 20};
  const std::vector<std::uint32_t> weights = {32768, 16384, 16384};
  const Assignment assignment = assign(sizes, weights);
  // 40 to tree 0; 30 to tree 1 (or 2); 20 to tree 2; 10 to tree 0.
  EXPECT_EQ(assignment.tree_of, (std::vector<std::uint32_t>{0, 0, 1, 2}));
  EXPECT_EQ(assignment.bytes, (std::vector<std::uint64_t>{50, 30, 20}));
  EXPECT_DOUBLE_EQ(assignment.imbalance, 1.2);
}

TEST(Assign, NothingGoesToATreeWithoutWeight) {
  const std::vector<std::uint32_t> weights = {0, 65536, 0};
  const Assignment assignment = assign(std::vector<std::uint64_t>{5, 5}, weights);
  EXPECT_EQ(assignment.bytes, (std::vector<std::uint64_t>{0, 10, 0}));
  EXPECT_EQ(assignment.imbalance, 1);
  EXPECT_EQ(assign({}, weights).imbalance, 1);
  EXPECT_EQ(assign(std::vector<std::uint64_t>{0}, weights).imbalance, 1);
}

TEST(Assign, ResNet50OverUnevenMachinesIsEven) {
  const std::vector<std::uint64_t> sizes = resnet50();
  ASSERT_EQ(sizes.size(), 161u);
  const double total = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  for (const auto& speeds :
       std::vector<std::vector<double>>{{100, 100, 100, 100, 100, 100, 100, 100},
                                        {100, 100, 100, 100, 80, 80, 60, 60},
                                        {90, 100, 110, 120, 130, 140, 150, 160}}) {
    std::vector<Vertex> machines;
    for (const double speed : speeds) machines.push_back(machine(Role::kWorker, speed * 1e8));
    const auto plan = plan_star(machines, {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const SizeClass& size_class = plan->domains[0].classes[0];
    std::vector<std::uint32_t> weights;
    for (const Tree& tree : size_class.trees) weights.push_back(tree.weight);
    const Assignment assignment = assign(sizes, weights);
    EXPECT_LE(assignment.imbalance, 1.03);
    std::vector<double> shares;
    for (const std::uint64_t bytes : assignment.bytes) {
      shares.push_back(static_cast<double>(bytes) / total);
    }
    Routes routes(plan->network);
    const double tau = evaluate(routes, size_class.trees, shares).tau;
    EXPECT_LE(tau / plan->domains[0].certificate->lower_bound, 1.03);
  }
}

TEST(Assign, EarlierBytesOfATreeCount) {
  const Assignment assignment =
      assign(std::vector<std::uint64_t>{10, 10, 5}, std::vector<std::uint32_t>{32768, 32768},
             std::vector<std::uint64_t>{20, 0});
  EXPECT_EQ(assignment.tree_of, (std::vector<std::uint32_t>{1, 1, 0}));
  EXPECT_EQ(assignment.bytes, (std::vector<std::uint64_t>{25, 20}));
  EXPECT_NEAR(assignment.imbalance, 25 / 22.5, 1e-12);
}

// Greedy is within the largest tensor of even: no tree ends later than the average and one tensor.
TEST(Assign, NoTreeExceedsItsShareByMoreThanOneTensor) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::uint64_t> sizes(1 + random() % 60);
    for (auto& size : sizes) size = 1 + random() % 100000;
    std::vector<double> shares(1 + random() % 9);
    for (double& share : shares) share = 1.0 + static_cast<double>(random() % 10);
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share /= sum;
    const auto weights = round_weights(shares);
    const Assignment assignment = assign(sizes, weights);
    const double total = std::accumulate(sizes.begin(), sizes.end(), 0.0);
    const auto largest = static_cast<double>(*std::max_element(sizes.begin(), sizes.end()));
    const auto trees = static_cast<double>(weights.size());
    for (std::size_t tree = 0; tree < weights.size(); ++tree) {
      const double even = total * weights[tree] / kWeightUnit;
      ASSERT_LE(static_cast<double>(assignment.bytes[tree]),
                even + largest * (1 + trees * weights[tree] / kWeightUnit));
    }
    ASSERT_EQ(std::accumulate(assignment.bytes.begin(), assignment.bytes.end(), std::uint64_t{0}),
              std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
  }
}

}  // namespace
}  // namespace tally::plan
