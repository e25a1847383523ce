#include "control/plan/forestcoll/max_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tally::plan::forestcoll {
namespace {

Capacities random_capacities(std::mt19937_64& random, std::size_t vertices) {
  Capacities capacities(vertices);
  for (std::size_t from = 0; from < vertices; ++from) {
    for (std::size_t to = 0; to < vertices; ++to) {
      if (from != to && random() % 2 == 0) {
        capacities(from, to) = static_cast<std::int64_t>(random() % 9);
      }
    }
  }
  return capacities;
}

std::int64_t capacity_of_cut(const Capacities& capacities, std::uint32_t side) {
  std::int64_t capacity = 0;
  for (std::size_t from = 0; from < capacities.vertices(); ++from) {
    for (std::size_t to = 0; to < capacities.vertices(); ++to) {
      if ((side >> from & 1) == 1 && (side >> to & 1) == 0) capacity += capacities(from, to);
    }
  }
  return capacity;
}

TEST(MaxFlow, IsTheLeastCut) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::size_t vertices = 2 + random() % 6;
    const Capacities capacities = random_capacities(random, vertices);
    std::int64_t least = MaxFlow::kUnlimited;
    for (std::uint32_t side = 0; side < 1U << vertices; ++side) {
      if ((side & 1) == 0 || (side >> (vertices - 1) & 1) == 1) continue;
      least = std::min(least, capacity_of_cut(capacities, side));
    }
    MaxFlow flow(capacities, 0);
    ASSERT_EQ(flow.run(0, vertices - 1), least);
    const std::vector<bool> reached = flow.reached_from(0);
    std::uint32_t side = 0;
    for (std::size_t at = 0; at < vertices; ++at) side |= reached[at] ? 1U << at : 0;
    ASSERT_EQ(capacity_of_cut(capacities, side), least);
  }
}

TEST(MaxFlow, StopsAtALimitAndGoesOnFromThere) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 100; ++round) {
    const Capacities capacities = random_capacities(random, 6);
    MaxFlow whole(capacities, 1), parts(capacities, 1);
    for (MaxFlow* flow : {&whole, &parts}) flow->add(5, 6, MaxFlow::kUnlimited);
    const std::int64_t all = whole.run(0, 6);
    const std::int64_t limit = all / 2;
    ASSERT_EQ(parts.run(0, 6, limit), limit);
    MaxFlow copy = parts;
    ASSERT_EQ(copy.run(0, 6), all - limit);
    ASSERT_EQ(parts.run(0, 6), all - limit);
  }
}

}  // namespace
}  // namespace tally::plan::forestcoll
