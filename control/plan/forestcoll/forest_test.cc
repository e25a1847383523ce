// The bound of ForestColl, its trees, and what an all-reduce of the two takes.
#include "control/plan/forestcoll/forest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <string_view>
#include <tuple>
#include <utility>

#include "control/plan/forestcoll/max_flow.h"
#include "control/plan/model/tree.h"
#include "control/plan/model/validate.h"

namespace tally::plan::forestcoll {
namespace {

constexpr double kExact = 1e-12;  // relative

// Adds links to a network, and gives machines the speed of their links.
class Builder {
 public:
  Builder(std::size_t workers, std::size_t forwarding, Role role = Role::kSwitch) {
    network_.vertices.assign(workers, Vertex{.role = Role::kWorker});
    network_.vertices.insert(network_.vertices.end(), forwarding, Vertex{.role = role});
  }

  void link(VertexId from, VertexId to, double capacity) {
    if (from != to) links_[{from, to}] += capacity;
  }
  void both(VertexId one, VertexId other, double capacity) {
    link(one, other, capacity);
    link(other, one, capacity);
  }

  Network network() const {
    Network network = network_;
    for (const auto& [ends, capacity] : links_) {
      const auto [from, to] = ends;
      network.links.push_back({from, to, capacity});
      if (network.vertices[from].role != Role::kSwitch) network.vertices[from].out += capacity;
      if (network.vertices[to].role != Role::kSwitch) network.vertices[to].in += capacity;
    }
    return network;
  }

 private:
  Network network_;
  std::map<std::pair<VertexId, VertexId>, double> links_;
};

Network star(const std::vector<double>& workers, const std::vector<double>& helpers = {}) {
  Builder builder(workers.size(), helpers.size(), Role::kHelper);
  Network network = builder.network();
  for (std::size_t i = 0; i < network.vertices.size(); ++i) {
    Vertex& machine = network.vertices[i];
    machine.in = machine.out = i < workers.size() ? workers[i] : helpers[i - workers.size()];
  }
  return star_network(network.vertices);
}

// `boxes` of `size` GPUs. A GPU has `inside` to the switch of its box and `outside` to one for all.
Network boxes_of(std::size_t boxes, std::size_t size, double inside, double outside) {
  const std::size_t workers = boxes * size;
  Builder builder(workers, boxes + 1);
  for (VertexId gpu = 0; gpu < workers; ++gpu) {
    builder.both(gpu, static_cast<VertexId>(workers + gpu / size), inside);
    builder.both(gpu, static_cast<VertexId>(workers + boxes), outside);
  }
  return builder.network();
}

// A sum of circles, so that each vertex has as much capacity in as out, and further links between
// workers. Every vertex reaches every other.
Network random_network(std::mt19937_64& random, std::size_t most_vertices) {
  const std::size_t vertices = 3 + random() % (most_vertices - 2);
  const std::size_t workers = 2 + random() % (vertices - 1);
  Builder builder(workers, vertices - workers, random() % 4 == 0 ? Role::kHelper : Role::kSwitch);
  std::vector<VertexId> order(vertices);
  std::iota(order.begin(), order.end(), 0U);
  const std::size_t circles = 1 + random() % vertices;
  for (std::size_t circle = 0; circle < circles; ++circle) {
    std::shuffle(order.begin(), order.end(), random);
    const std::size_t length = circle == 0 ? vertices : 2 + random() % (vertices - 1);
    const auto capacity = static_cast<double>(1 + random() % 5);
    for (std::size_t i = 0; i < length; ++i) {
      builder.link(order[i], order[(i + 1) % length], capacity);
    }
  }
  for (std::size_t i = random() % (2 * workers); i > 0; --i) {
    builder.link(static_cast<VertexId>(random() % workers),
                 static_cast<VertexId>(random() % workers), static_cast<double>(1 + random() % 5));
  }
  return builder.network();
}

Capacities units(const Network& network) {
  Capacities capacities(network.vertices.size());
  for (const Link& link : network.links) {
    capacities(link.from, link.to) = static_cast<std::int64_t>(link.capacity);
  }
  return capacities;
}

std::size_t workers_of(const Network& network) {
  return static_cast<std::size_t>(
      std::count_if(network.vertices.begin(), network.vertices.end(),
                    [](const Vertex& vertex) { return vertex.role == Role::kWorker; }));
}

// The largest fraction of all cuts, one after the other.
double bound_by_cuts(const Network& network) {
  const Capacities capacities = units(network);
  const std::size_t vertices = capacities.vertices(), workers = workers_of(network);
  const std::uint32_t all_workers = (1U << workers) - 1;
  std::vector<std::int64_t> out(std::size_t{1} << vertices);
  double largest = 0;
  for (std::uint32_t set = 1; set < out.size(); ++set) {
    std::uint32_t last = 0;
    while ((set >> last & 1) == 0) ++last;
    const std::uint32_t rest = set & (set - 1);
    out[set] = out[rest];
    for (std::size_t other = 0; other < vertices; ++other) {
      if ((rest >> other & 1) == 1) out[set] -= capacities(other, last);
      if ((set >> other & 1) == 0) out[set] += capacities(last, other);
    }
    const std::uint32_t inside = set & all_workers;
    if (inside == 0 || inside == all_workers) continue;
    const auto count = static_cast<double>(__builtin_popcount(inside));
    largest = std::max(largest, count / static_cast<double>(out[set]));
  }
  return largest;
}

// Checks that each root has as many trees as it must, that each tree spans the workers, and that
// all of them together fit the links. `back`: bytes go towards the roots.
void check(const Network& network, const Forest& forest, bool back) {
  std::map<VertexId, std::int64_t> roots;
  std::map<std::pair<VertexId, VertexId>, std::int64_t> used;
  for (const Trees& trees : forest.trees) {
    roots[trees.root] += trees.count;
    const auto shape = Shape::of(trees.parents, "parents");
    ASSERT_TRUE(shape.ok()) << shape.error().message;
    EXPECT_EQ(shape->root(), trees.root);
    EXPECT_EQ(shape->order().size(), forest.workers);
    for (VertexId id = 0; id < trees.parents.size(); ++id) {
      EXPECT_EQ(shape->has(id), network.vertices[id].role == Role::kWorker);
      std::int64_t count = 0;
      for (const Route& route : trees.routes[id]) {
        const auto parent = static_cast<VertexId>(trees.parents[id]);
        VertexId at = back ? id : parent;
        for (const VertexId next : route.via)
          used[{std::exchange(at, next), next}] += route.capacity;
        used[{at, back ? parent : id}] += route.capacity;
        count += route.capacity;
      }
      EXPECT_EQ(count, trees.parents[id] >= 0 ? trees.count : 0);
    }
  }
  EXPECT_EQ(roots.size(), forest.workers);
  for (const auto& [root, count] : roots) EXPECT_EQ(count, forest.trees_per_root);
  std::map<std::pair<VertexId, VertexId>, double> capacities;
  for (const Link& link : network.links) capacities[{link.from, link.to}] = link.capacity;
  for (const auto& [ends, count] : used) {
    const double speed = static_cast<double>(count) * forest.tree_speed();
    EXPECT_LE(speed, capacities[ends] * (1 + kExact)) << ends.first << " -> " << ends.second;
  }
}

Forest checked(const Network& network, bool back = false) {
  EXPECT_TRUE(validate(network).ok()) << validate(network).error().message;
  const auto forest = back ? reduce_scatter(network, 1) : all_gather(network, 1);
  if (!forest) {
    ADD_FAILURE() << forest.error().message;
    return {};
  }
  check(network, *forest, back);
  return *forest;
}

// Seconds per byte of an all-reduce: reduce-scatter, then all-gather.
double all_reduce_seconds(const Network& network) {
  return checked(network, true).seconds() + checked(network, false).seconds();
}

// -- Values of the paper and closed forms ------------------------------------------------------

TEST(ForestColl, TwoBoxesOfEightA100AsInThePaper) {
  const Forest forest = checked(boxes_of(2, 8, 300, 25));
  EXPECT_EQ(forest.least_time, (Fraction{3, 65}));
  EXPECT_EQ(forest.trees_per_root, 13);
  EXPECT_NEAR(1 / forest.seconds(), 346.67, 0.005);
}

// Two GPUs of a module share 4 links of 50 GB/s, and each has 3 links to other modules, here as the
// edges of a hypercube. The module's cut counts, however its links are joined to others.
TEST(ForestColl, ABoxOfSixteenMi250AsInThePaper) {
  Builder box(16, 0);
  for (VertexId gpu = 0; gpu < 16; ++gpu) {
    for (const VertexId bit : {1U, 2U, 4U, 8U}) box.link(gpu, gpu ^ bit, bit == 1 ? 200 : 50);
  }
  const Forest forest = checked(box.network());
  EXPECT_EQ(forest.least_time, (Fraction{7, 150}));
  EXPECT_EQ(forest.trees_per_root, 3);
  EXPECT_NEAR(1 / forest.seconds(), 342.86, 0.005);
}

TEST(ForestColl, BoxesTakeAsLongAsTheirCuts) {
  for (const auto& [boxes, size, inside, outside] :
       std::vector<std::tuple<std::size_t, std::size_t, double, double>>{
           {2, 4, 10, 1}, {3, 3, 5, 5}, {4, 2, 1, 7}, {2, 8, 300, 25}, {5, 1, 1, 2}}) {
    const auto gpus = static_cast<double>(boxes * size);
    const double expected =
        std::max((gpus - 1) / (inside + outside), (static_cast<double>(boxes) - 1) / outside);
    const Forest forest = checked(boxes_of(boxes, size, inside, outside));
    EXPECT_DOUBLE_EQ(forest.least_time.value(), expected) << boxes << " x " << size;
  }
}

TEST(ForestColl, APathOfUnequalLinksTakesAThirdMoreThanTrees) {
  Builder path(3, 0);
  path.both(0, 1, 1);
  path.both(1, 2, 2);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(path.network()), 4.0 / 3);
}

TEST(ForestColl, OneSlowNicHoldsUpAll) {
  for (const std::size_t workers : {2, 3, 4, 8}) {
    std::vector<double> nics(workers, 4);
    nics[1] = 1;
    const auto n = static_cast<double>(workers);
    EXPECT_DOUBLE_EQ(all_reduce_seconds(star(nics)), 2 * (n - 1) / n);
  }
}

TEST(ForestColl, HelpersOfAStarAreOfNoUse) {
  for (std::size_t helpers = 0; helpers <= 4; ++helpers) {
    const Network network = star(std::vector<double>(4, 1), std::vector<double>(helpers, 1));
    EXPECT_DOUBLE_EQ(all_reduce_seconds(network), 1.5) << helpers;
  }
}

// Two racks of 4 workers and some helpers, whose NICs have 2.
TEST(ForestColl, RacksTakeAsLongAsTheirNicsOrTheirLink) {
  struct Case {
    double link = 0;
    std::size_t helpers = 0;  // in each rack
    double expected = 0;      // seconds per byte of an all-reduce
  };
  for (const auto& [link, helpers, expected] : std::vector<Case>{
           {4, 0, 0.875}, {4, 2, 0.875}, {2, 1, 0.875}, {2, 4, 0.875}, {1, 0, 1}, {1, 2, 1}}) {
    const auto first_helper = VertexId{8};
    const auto first_switch = static_cast<VertexId>(first_helper + 2 * helpers);
    Builder builder(8, 2 * helpers + 2);
    for (VertexId id = 0; id < first_switch; ++id) builder.both(id, first_switch + id % 2, 2);
    builder.both(first_switch, first_switch + 1, link);
    EXPECT_DOUBLE_EQ(all_reduce_seconds(builder.network()), expected) << link << ", " << helpers;
  }
}

TEST(ForestColl, ReduceScatterHasTheLinksTheOtherWay) {
  Builder builder(3, 0);
  builder.link(0, 1, 1);
  builder.link(1, 2, 2);
  builder.link(2, 0, 3);
  builder.link(2, 1, 1);
  const Network network = builder.network();
  EXPECT_EQ(checked(network, false).least_time, (Fraction{1, 1}));
  EXPECT_EQ(checked(network, true).least_time, (Fraction{2, 1}));
}

// The usual number of networks, or ten times as many.
int rounds(int usual) {
  const char* tier = std::getenv("TALLY_TEST_TIER");
  return tier != nullptr && std::string_view(tier) == "soak" ? 10 * usual : usual;
}

// -- Random networks -----------------------------------------------------------------------------

TEST(ForestColl, TheBoundIsThatOfAllCuts) {
  std::mt19937_64 random(3);
  for (int round = 0; round < rounds(1000); ++round) {
    const Network network = random_network(random, 12);
    const auto least = least_time(units(network), workers_of(network));
    ASSERT_TRUE(least.has_value());
    ASSERT_DOUBLE_EQ(least->value(), bound_by_cuts(network)) << "network " << round;
  }
}

// Sums go up and results down at once in trees. No tree is faster than these bounds, and an
// all-reduce of two phases is no faster than the best trees.
TEST(ForestColl, TwoPhasesAreNoFasterThanAnyBoundOfTrees) {
  std::mt19937_64 random(4);
  for (int round = 0; round < rounds(200); ++round) {
    const Network network = random_network(random, 9);
    const double seconds = all_reduce_seconds(network) * (1 + kExact);
    const std::size_t workers = workers_of(network);
    for (VertexId one = 0; one < workers; ++one) {
      ASSERT_GE(seconds, 1 / std::min(network.vertices[one].in, network.vertices[one].out));
      for (VertexId other = 0; other < workers; ++other) {
        if (one == other) continue;
        const std::int64_t flow = MaxFlow(units(network), 0).run(one, other);
        ASSERT_GE(seconds, 1 / static_cast<double>(flow)) << "network " << round;
      }
    }
  }
}

// The largest (parts - 1) / (capacity between parts) of all ways to part the workers: what the best
// trees take (Nash-Williams and Tutte, 1961), on a symmetric network of workers alone.
double tree_time(const Network& network) {
  const std::size_t workers = network.vertices.size();
  std::vector<std::size_t> part(workers);
  double largest = 0;
  const auto visit = [&](auto&& self, std::size_t at, std::size_t parts) -> void {
    if (at < workers) {
      for (part[at] = 0; part[at] <= parts; ++part[at]) {
        self(self, at + 1, std::max(parts, part[at] + 1));
      }
      return;
    }
    double between = 0;
    for (const Link& link : network.links) {
      if (link.from < link.to && part[link.from] != part[link.to]) between += link.capacity;
    }
    if (parts > 1) largest = std::max(largest, static_cast<double>(parts - 1) / between);
  };
  visit(visit, 0, 0);
  return largest;
}

TEST(ForestColl, TwoPhasesAreNoFasterThanTheBestTrees) {
  std::mt19937_64 random(5);
  for (int round = 0; round < rounds(100); ++round) {
    const std::size_t workers = 2 + random() % 5;
    Builder builder(workers, 0);
    for (VertexId one = 0; one < workers; ++one) {
      for (VertexId other = 0; other < one; ++other) {
        if (other + 1 != one && random() % 2 == 0) continue;
        builder.both(one, other, static_cast<double>(1 + random() % 6));
      }
    }
    const Network network = builder.network();
    const double trees = tree_time(network), phases = all_reduce_seconds(network);
    ASSERT_GE(phases * (1 + kExact), trees);
    ASSERT_LE(phases, 2 * trees * (1 + kExact));
  }
}

// -- Errors ------------------------------------------------------------------------------------

std::string refusal(const Network& network, double unit = 1) {
  const auto forest = all_gather(network, unit);
  return forest ? "" : forest.error().message;
}

TEST(ForestColl, NetworksThatDoNotFitAreRefused) {
  EXPECT_EQ(refusal(star({1})), "ForestColl: 1 workers: must be 2 to 256");
  EXPECT_EQ(refusal(star({4, 4}), 5),
            "ForestColl: worker 0 -> switch 2: 4 bytes per second are 0 units of 5; must be 1 to "
            "2^31 units");
  Network uneven = star({4, 4});
  uneven.vertices[0].out = uneven.links[0].capacity = 3;
  EXPECT_EQ(refusal(uneven),
            "ForestColl: switch 2: 7 units lead into it and 8 out of it; a vertex that only "
            "forwards must have as many both ways, so lower the faster ones");
  Network slow = star({4, 4});
  slow.vertices[1].in = 3;
  EXPECT_NE(refusal(slow).find("worker 1: its links carry 4 in"), std::string::npos);
  Builder apart(3, 0);
  apart.both(0, 1, 1);
  apart.link(2, 0, 1);
  EXPECT_NE(refusal(apart.network()).find("add links"), std::string::npos);
}

}  // namespace
}  // namespace tally::plan::forestcoll
