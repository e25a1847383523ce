// A shard over a loopback transport in each of its modes, with a Faulty that injects faults.
#pragma once

#include <gtest/gtest.h>

#include "dataplane/engine/shard.h"
#include "tests/support/single_shard.h"
#include "tests/support/transport/faulty.h"

namespace tally::engine {

class ShardFaultsTest : public ::testing::TestWithParam<transport::LoopbackConfig::Mode> {
 protected:
  static testing::SingleShard::Options options(std::uint16_t ranks = 3) {
    testing::SingleShard::Options options;
    options.ranks = ranks;
    options.loopback.mode = GetParam();
    return options;
  }

  // The same, with a Faulty in front of the loopback; it injects no fault until the test asks for
  // one.
  testing::SingleShard::Options decorated(std::uint16_t ranks = 3) {
    testing::SingleShard::Options options = ShardFaultsTest::options(ranks);
    options.decorate = [this](transport::Loopback& inner) {
      auto decorator = std::make_unique<transport::Faulty>(inner, transport::FaultyConfig{});
      faulty_ = decorator.get();
      return decorator;
    };
    return options;
  }

  static void expect_all(testing::SingleShard& node, std::initializer_list<std::uint16_t> ranks,
                         Status status, std::uint16_t culprit) {
    for (const std::uint16_t rank : ranks) {
      const auto completions = node.take(rank);
      ASSERT_EQ(completions.size(), 1u) << "rank " << rank;
      EXPECT_EQ(completions[0].status, status) << status_name(completions[0].status);
      EXPECT_EQ(completions[0].culprit, culprit);
    }
    EXPECT_TRUE(node.clean());
  }

  transport::Faulty* faulty_ = nullptr;
};

}  // namespace tally::engine
