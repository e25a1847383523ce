#include "control/coordinator/layout/homes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "control/plan/stars/star_planner.h"

namespace tally::control {
namespace {

using protocol::Operand;
using protocol::Partition;

// The gradients of ResNet-50, by tag.
std::vector<plan::Tensor> resnet50() {
  std::ifstream file(TALLY_RESNET50);
  const nlohmann::json model = nlohmann::json::parse(file);
  std::vector<plan::Tensor> tensors;
  for (const auto& one : model.at("tensors")) {
    std::uint64_t bytes = 4;
    for (const std::uint64_t dimension : one.at(1)) bytes *= dimension;
    tensors.push_back({static_cast<std::uint32_t>(tensors.size()), bytes});
  }
  return tensors;
}

// Of the most loaded tree, relative to what its weight would give it.
double imbalance(const Partition& plan, const std::vector<plan::Tensor>& tensors) {
  std::vector<double> bytes(plan.trees);
  for (const plan::Tensor& one : tensors) {
    const Operand operand{.tag = one.tag, .count = one.bytes / 4};
    for (std::uint32_t i = 0; i < protocol::part_count(plan, operand); ++i) {
      const protocol::Part part = protocol::cut(plan, operand, i);
      bytes[part.tree] += static_cast<double>(part.count) * 4;
    }
  }
  const double total = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  const auto& last = plan.classes.back();
  double worst = 0;
  for (std::size_t i = 0; i < last.trees.size(); ++i) {
    worst = std::max(worst, bytes[last.trees[i]] / (total * last.weights[i] / 65536));
  }
  return worst;
}

TEST(Homes, Resnet50IsEvenOverEightNodesOfUnevenSpeed) {
  const auto tensors = resnet50();
  ASSERT_EQ(tensors.size(), 161U);
  std::mt19937_64 random(1);
  double worst_by_sequence = 0;
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<double> speeds(8);
    for (double& speed : speeds) speed = 10 + static_cast<double>(random() % 90);
    const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    for (double& speed : speeds) speed /= sum;
    const std::vector<std::uint32_t> weights = plan::round_weights(speeds);
    // What is divided is cut in blocks, which a slow node feels: the more goes whole, the better.
    for (const auto& [split, most] : {std::pair{256U << 10, 1.05}, {1U << 20, 1.01}}) {
      Partition plan = protocol::weighted_partition(weights, split);
      worst_by_sequence = std::max(worst_by_sequence, imbalance(plan, tensors));
      plan.homes = known_homes(plan, tensors);
      ASSERT_TRUE(protocol::valid(plan));
      EXPECT_LT(imbalance(plan, tensors), most) << split;
    }
  }
  EXPECT_GT(worst_by_sequence, 1.05) << "else there is no need of all this";
}

TEST(Homes, SmallClassesWithTreesOfTheirOwnAreEvenAmongThemselves) {
  Partition plan = protocol::weighted_partition({32768, 32768, 0}, 0);
  plan.classes.insert(plan.classes.begin(), {4096, false, {1, 2}, {16384, 49152}});
  const auto homes = known_homes(plan, {{1, 4000}, {2, 4000}, {3, 4000}, {4, 4000}, {9, 1 << 20}});
  ASSERT_EQ(homes.size(), 4U) << "the last one is divided";
  std::vector<int> hits(3);
  for (const protocol::Home& home : homes) ++hits[home.tree];
  EXPECT_EQ(hits, (std::vector<int>{0, 1, 3}));
}

}  // namespace
}  // namespace tally::control
