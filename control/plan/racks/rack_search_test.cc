// The search for racks, over networks whose flows share each passage evenly, or nearly so.
#include "control/plan/racks/rack_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "control/plan/racks/groups.h"

namespace tally::plan::racks {
namespace {

struct Link {
  double up = 0;
  double down = 0;
};

// Machines with NICs of 1 below racks, whose links have other speeds.
class Fabric {
 public:
  Fabric(const std::vector<std::size_t>& sizes, std::vector<Link> links, std::uint64_t seed)
      : links_(std::move(links)), random_(seed) {
    for (std::size_t rack = 0; rack < sizes.size(); ++rack)
      racks_.resize(racks_.size() + sizes[rack], rack);
    std::shuffle(racks_.begin(), racks_.end(), random_);
  }

  std::size_t machines() const { return racks_.size(); }
  std::size_t rack(std::size_t machine) const { return racks_[machine]; }
  const Link& link(std::size_t rack) const { return links_[rack]; }

  std::vector<Speeds> speeds() {
    std::vector<Speeds> speeds;
    for (std::size_t i = 0; i < machines(); ++i) speeds.push_back({noise(0.02), noise(0.02)});
    return speeds;
  }

  // Speeds with noise of 5 %. Of flows through one passage, each has a weight of its own.
  void measure(std::vector<Flow>& flows) {
    std::vector<double> weights;
    for (std::size_t i = 0; i < flows.size(); ++i) weights.push_back(std::exp(noise(0.15) - 1));
    share(flows, weights);
    for (Flow& flow : flows) flow.speed *= noise(0.05);
  }

 private:
  double noise(double part) {
    return std::max(0.01, std::normal_distribution<double>(1, part)(random_));
  }

  // Raises all flows together, in proportion to their weights. Where a passage is full, its flows
  // stay as they are.
  void share(std::vector<Flow>& flows, const std::vector<double>& weights) const {
    enum Kind : std::uint8_t { kOut, kIn, kUp, kDown };
    std::map<std::pair<Kind, std::size_t>, std::pair<double, std::set<std::size_t>>> passages;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const auto [from, to, speed] = flows[i];
      const auto pass = [&](Kind kind, std::size_t at, double capacity) {
        auto& passage = passages[{kind, at}];
        passage.first = capacity;
        passage.second.insert(i);
      };
      pass(kOut, from, 1);
      pass(kIn, to, 1);
      if (racks_[from] == racks_[to]) continue;
      pass(kUp, racks_[from], links_[racks_[from]].up);
      pass(kDown, racks_[to], links_[racks_[to]].down);
    }
    while (!passages.empty()) {
      const auto level = [&](const auto& passage) {
        double all = 0;
        for (const std::size_t i : passage.second.second) all += weights[i];
        return passage.second.first / all;
      };
      const auto full =
          *std::min_element(passages.begin(), passages.end(),
                            [&](const auto& a, const auto& b) { return level(a) < level(b); });
      for (const std::size_t i : full.second.second) flows[i].speed = level(full) * weights[i];
      for (auto at = passages.begin(); at != passages.end();) {
        for (const std::size_t i : full.second.second) {
          if (at->second.second.erase(i) > 0) at->second.first -= flows[i].speed;
        }
        at = at->second.second.empty() ? passages.erase(at) : std::next(at);
      }
    }
  }

  std::vector<std::size_t> racks_;  // by machine
  std::vector<Link> links_;         // by rack
  std::mt19937_64 random_;
};

struct Found {
  std::vector<Rack> racks;
  std::size_t rounds = 0;
};

Found search(Fabric& fabric, bool with_pairs = false) {
  RackSearch search(fabric.speeds());
  if (with_pairs) {
    for (std::size_t i = 0; i < fabric.machines(); ++i) {
      for (std::size_t j = 0; j < fabric.machines(); ++j) {
        if (i == j) continue;
        std::vector<Flow> one = {{i, j}};
        fabric.measure(one);
        search.add_alone(one[0]);
      }
    }
  }
  Found found;
  for (auto flows = search.next(); !flows.empty(); flows = search.next()) {
    fabric.measure(flows);
    search.add(flows);
    ++found.rounds;
  }
  found.racks = search.racks();
  return found;
}

bool is_right(const Fabric& fabric, const std::vector<Rack>& racks) {
  std::set<std::size_t> seen;
  std::size_t machines = 0;
  for (const Rack& rack : racks) {
    const std::size_t of = fabric.rack(rack.machines.front());
    if (!seen.insert(of).second) return false;
    for (const std::size_t machine : rack.machines) {
      if (fabric.rack(machine) != of) return false;
      ++machines;
    }
  }
  return machines == fabric.machines();
}

int seeds() {
  const char* tier = std::getenv("TALLY_TEST_TIER");
  return tier != nullptr && std::string_view(tier) == "soak" ? 200 : 10;
}

struct Case {
  std::vector<std::size_t> sizes;
  double speed = 0;  // of the link of each rack, both ways
};

// Links of 2:1, 4:1 and 8:1, and racks of unequal sizes.
std::vector<Case> cases() {
  return {{{4, 4}, 2}, {{4, 4}, 1},    {{4, 4}, 0.5}, {{8, 8, 8, 8}, 2},
          {{6, 6}, 2}, {{3, 5, 8}, 2}, {{12, 12}, 4}, {{4, 4, 4, 4, 4, 4, 4, 4}, 1}};
}

// Measurements have noise, so one of a hundred seeds may be wrong.
int most_wrong() {
  return seeds() / 100;
}

bool is_near(double value, double expected, double part) {
  return std::abs(value - expected) <= part * expected;
}

TEST(RackSearch, FindsRacksThatShareALink) {
  for (const Case& one : cases()) {
    int wrong_racks = 0, wrong_links = 0;
    for (int seed = 0; seed < seeds(); ++seed) {
      Fabric fabric(one.sizes, std::vector<Link>(one.sizes.size(), {one.speed, one.speed}),
                    static_cast<std::uint64_t>(seed));
      const Found found = search(fabric);
      EXPECT_LE(found.rounds, RackSearch::kRounds + 2 * fabric.machines());
      if (!is_right(fabric, found.racks)) {
        ++wrong_racks;
        continue;
      }
      for (const Rack& rack : found.racks) {
        if (!is_near(rack.up, one.speed, 0.2) || !is_near(rack.down, one.speed, 0.2)) ++wrong_links;
      }
    }
    EXPECT_LE(wrong_racks, most_wrong()) << one.sizes.size() << " racks, links of " << one.speed;
    EXPECT_LE(wrong_links, most_wrong()) << one.sizes.size() << " racks, links of " << one.speed;
  }
}

TEST(RackSearch, FindsNoRacksWhereOnlyNicsLimit) {
  for (const std::size_t machines : {3, 4, 8, 24}) {
    int wrong = 0;
    for (int seed = 0; seed < seeds(); ++seed) {
      Fabric fabric({machines}, {{1, 1}}, static_cast<std::uint64_t>(seed));
      const Found found = search(fabric, seed % 2 == 0);
      if (!found.racks.empty()) ++wrong;
    }
    EXPECT_LE(wrong, most_wrong()) << machines << " machines";
  }
}

TEST(RackSearch, PairsAloneDoNotMislead) {
  for (const Case& one : cases()) {
    int wrong = 0;
    for (int seed = 0; seed < seeds(); ++seed) {
      Fabric fabric(one.sizes, std::vector<Link>(one.sizes.size(), {one.speed, one.speed}),
                    static_cast<std::uint64_t>(1000 + seed));
      if (!is_right(fabric, search(fabric, true).racks)) ++wrong;
    }
    EXPECT_LE(wrong, most_wrong()) << one.sizes.size() << " racks, links of " << one.speed;
  }
}

TEST(RackSearch, MeasuresLinksThatAreSlowerOneWay) {
  int wrong = 0;
  for (int seed = 0; seed < seeds(); ++seed) {
    Fabric fabric({5, 5, 5}, {{2, 10}, {3, 1}, {10, 2}}, static_cast<std::uint64_t>(seed));
    const Found found = search(fabric);
    bool is_good = is_right(fabric, found.racks);
    for (const Rack& rack : found.racks) {
      const Link& link = fabric.link(fabric.rack(rack.machines.front()));
      // More than the NICs of a rack have is as good as what they have.
      is_good = is_good && is_near(rack.up, std::min(link.up, 5.0), 0.25) &&
                is_near(rack.down, std::min(link.down, 5.0), 0.25);
    }
    if (!is_good) ++wrong;
  }
  EXPECT_LE(wrong, most_wrong());
}

// Its speed was measured when it was free, and in the rounds it is slow with all others.
TEST(RackSearch, AMachineThatIsSlowWithAllIsNoRack) {
  for (int seed = 0; seed < 10; ++seed) {
    Fabric fabric({4, 4}, {{1.5, 1.5}, {1.5, 1.5}}, static_cast<std::uint64_t>(seed));
    RackSearch search(fabric.speeds());
    for (auto flows = search.next(); !flows.empty(); flows = search.next()) {
      fabric.measure(flows);
      for (Flow& flow : flows) {
        if ((flow.from == 3 || flow.to == 3) && flow.speed > 0.5) flow.speed *= 0.75;
      }
      search.add(flows);
    }
    EXPECT_LE(search.racks().size(), 2U) << seed;
  }
}

TEST(RackSearch, FlowsThatWereNotMeasuredDoNotCount) {
  RackSearch search({{1, 1}, {1, 1}, {1, 1}, {1, 1}});
  std::size_t rounds = 0;
  for (auto flows = search.next(); !flows.empty(); flows = search.next()) {
    search.add(flows);
    ++rounds;
  }
  EXPECT_LE(rounds, RackSearch::kRounds);
  EXPECT_TRUE(search.racks().empty());
}

TEST(RackSearch, EachMachineSendsToOneOtherInARound) {
  Fabric fabric({3, 4}, {{1, 1}, {1, 1}}, 1);
  RackSearch search(fabric.speeds());
  for (std::size_t round = 0; round < 16; ++round) {
    auto flows = search.next();
    std::set<std::size_t> senders, receivers;
    for (const Flow& flow : flows) {
      EXPECT_NE(flow.from, flow.to);
      senders.insert(flow.from);
      receivers.insert(flow.to);
    }
    EXPECT_EQ(senders.size(), 7U);
    EXPECT_EQ(receivers.size(), 7U);
    fabric.measure(flows);
    search.add(flows);
  }
}

TEST(Groups, KeepTogetherWhatWeighsMost) {
  Weights weights(5);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < i; ++j) weights.add(i, j, i % 2 == j % 2 ? 1 : -1);
  }
  EXPECT_EQ(group(weights), (std::vector<std::size_t>{0, 1, 0, 1, 0}));
  weights.add(0, 1, 2.5);  // the heaviest pair, but 0 has more weight with 2 and 4 together
  EXPECT_EQ(group(weights), (std::vector<std::size_t>{0, 1, 0, 1, 0}));
  EXPECT_EQ(group(Weights(2)), (std::vector<std::size_t>{0, 1}));
}

}  // namespace
}  // namespace tally::plan::racks
