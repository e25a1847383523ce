// Carries out plans step by step on simulated machines. Each copy of an element knows whose
// gradients are in it, and each link counts the elements that it carries. The steps and the routes
// are written here again, from the definitions in strategy.h, without the planner's code.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "gpu_bridge/machine/planner.h"
#include "gpu_bridge/machine/test_hosts.h"

namespace tally::host {
namespace {

// A share as elements of an operation.
struct Slice {
  std::size_t group = 0;
  VertexId gpu = kNone;
  VertexId memory = kNone;
  VertexId nic = kNone;
  std::uint64_t first = 0;  // element
  std::uint64_t count = 0;  // elements, above 0
};

bool has_place_of(const Share& a, const Share& b) {
  return a.memory == b.memory && a.nic == b.nic;
}

// The end of the shares that begin at `from` and have its memory and NIC.
std::size_t end_of_place(const std::vector<Share>& shares, std::size_t from) {
  std::size_t end = from;
  while (end < shares.size() && has_place_of(shares[end], shares[from])) ++end;
  return end;
}

double weight_of(const std::vector<Share>& shares, std::size_t from, std::size_t end) {
  double weight = 0;
  for (std::size_t i = from; i < end; ++i) weight += shares[i].weight;
  return weight;
}

std::uint64_t boundary(double part, std::uint64_t count, std::uint64_t granule) {
  if (part >= 1) return count;
  const double granules = static_cast<double>(count) / static_cast<double>(granule);
  const auto rounded = static_cast<std::uint64_t>(std::llround(std::max(part, 0.0) * granules));
  return std::min(rounded * granule, count);
}

// Divides `count` elements as the shares say. Boundaries are multiples of `granule` elements. In
// each group the slices cover every element once, in ascending order. An element has the same
// memory and NIC in all groups.
std::vector<Slice> divide(const std::vector<Group>& groups, std::uint64_t count,
                          std::uint64_t granule) {
  std::vector<Slice> slices;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<Share>& shares = groups[g].shares;
    // The first group decides where a place begins and ends, so that rounding of sums cannot move
    // an element to another memory in another group.
    const std::vector<Share>& first = groups.front().shares;
    std::size_t place = 0, share = 0;
    double before = 0;
    while (place < first.size() && share < shares.size()) {
      const std::size_t place_end = end_of_place(first, place);
      const std::size_t share_end = end_of_place(shares, share);
      const double after =
          place_end == first.size() ? 1 : before + weight_of(first, place, place_end);
      const std::uint64_t begin = boundary(before, count, granule);
      const std::uint64_t elements = boundary(after, count, granule) - begin;
      const double total = weight_of(shares, share, share_end);
      double weight = 0;
      std::uint64_t at = 0;
      for (; share < share_end; ++share) {
        weight += shares[share].weight;
        const std::uint64_t end =
            share + 1 == share_end ? elements : boundary(weight / total, elements, granule);
        if (end > at) {
          slices.push_back({g, shares[share].gpu, shares[share].memory, shares[share].nic,
                            begin + at, end - at});
        }
        at = std::max(at, end);
      }
      place = place_end;
      before = after;
    }
  }
  return slices;
}

using Contributors = std::uint32_t;  // bit: a GPU
using Buffer = std::vector<Contributors>;

class Machine {
 public:
  Machine(const Host& host, std::uint64_t elements) : host_(host), elements_(elements) {
    for (const VertexId gpu : host.all(Kind::kGpu)) {
      own_[gpu] = Contributors{1} << own_.size();
      all_ |= own_[gpu];
      gradients_[gpu] = Buffer(elements, own_[gpu]);
      results_[gpu] = Buffer(elements, 0);
    }
  }

  void run(const std::vector<Group>& groups) {
    const std::vector<Slice> slices = divide(groups, elements_, 1);
    for (const Slice& slice : slices) reduce(groups[slice.group], slice);
    sum_and_exchange(groups, slices);
    for (const Slice& slice : slices) gather(groups[slice.group], slice);
  }

  bool every_gpu_has_the_sum() const {
    for (const auto& [gpu, buffer] : results_) {
      for (const Contributors who : buffer) {
        if (who != all_) return false;
      }
    }
    return true;
  }

  // Elements over the link, or elements that the CPU read for sums.
  double carried(VertexId from, VertexId to, Bus bus) const {
    const auto found = carried_.find({from, to, bus});
    return found == carried_.end() ? 0 : found->second;
  }
  double summed(VertexId numa) const {
    const auto found = summed_.find(numa);
    return found == summed_.end() ? 0 : found->second;
  }

 private:
  struct Hop {
    VertexId from, to;
    Bus bus;
    auto operator<=>(const Hop&) const = default;
  };

  bool has_nvlink(VertexId from, VertexId to) const {
    return std::any_of(host_.links.begin(), host_.links.end(), [&](const Link& link) {
      return link.from == from && link.to == to && link.bus == Bus::kNvlink;
    });
  }

  // Up from a vertex to its NUMA node, itself first.
  std::vector<VertexId> way_up(VertexId vertex) const {
    std::vector<VertexId> way = {vertex};
    while (host_.vertices[way.back()].under != kNone)
      way.push_back(host_.vertices[way.back()].under);
    return way;
  }

  // Over PCIe: up to where the ways meet, and down; between sockets where they do not.
  void send_over_pcie(VertexId from, VertexId to, double count) {
    std::vector<VertexId> up = way_up(from), down = way_up(to);
    while (up.size() > 1 && down.size() > 1 && up[up.size() - 2] == down[down.size() - 2]) {
      up.pop_back();
      down.pop_back();
    }
    if (up.back() == down.back()) {
      // One end may be above the other.
      while (up.size() > 1 && down.size() > 1 && up[up.size() - 2] == down.back()) up.pop_back();
    } else {
      carried_[{up.back(), down.back(), Bus::kSocket}] += count;
    }
    for (std::size_t i = 0; i + 1 < up.size(); ++i)
      carried_[{up[i], up[i + 1], Bus::kPcie}] += count;
    for (std::size_t i = down.size() - 1; i > 0; --i) {
      carried_[{down[i], down[i - 1], Bus::kPcie}] += count;
    }
  }

  void send_to_peer(VertexId from, VertexId to, double count) {
    if (has_nvlink(from, to)) {
      carried_[{from, to, Bus::kNvlink}] += count;
      return;
    }
    for (const VertexId through : host_.all(Kind::kNvswitch)) {
      if (!has_nvlink(from, through) || !has_nvlink(through, to)) continue;
      carried_[{from, through, Bus::kNvlink}] += count;
      carried_[{through, to, Bus::kNvlink}] += count;
      return;
    }
    send_over_pcie(from, to, count);
  }

  // The GPUs from the one after `gpu` round the ring to itself; or backwards.
  static std::vector<VertexId> round_to(const Group& group, VertexId gpu, bool backwards) {
    std::vector<VertexId> ring = group.ring;
    if (backwards) std::reverse(ring.begin(), ring.end());
    std::rotate(ring.begin(), std::find(ring.begin(), ring.end(), gpu) + 1, ring.end());
    return ring;
  }

  // Calls visit(first element, end, backwards) for what goes each way round.
  template <typename Visit>
  static void each_way(const Group& group, const Slice& slice, Visit&& visit) {
    const std::uint64_t end = slice.first + slice.count;
    const std::uint64_t middle = group.both_ways ? slice.first + slice.count / 2 : end;
    visit(slice.first, middle, false);
    if (middle < end) visit(middle, end, true);
  }

  // Step 1: partial sums go round and end at the GPU of the slice.
  void reduce(const Group& group, const Slice& slice) {
    each_way(group, slice, [&](std::uint64_t first, std::uint64_t end, bool backwards) {
      const auto ring = round_to(group, slice.gpu, backwards);
      for (std::size_t i = 0; i + 1 < ring.size(); ++i) {
        send_to_peer(ring[i], ring[i + 1], static_cast<double>(end - first));
        for (std::uint64_t element = first; element < end; ++element) {
          Contributors& there = gradients_[ring[i + 1]][element];
          const Contributors sent = gradients_[ring[i]][element];
          EXPECT_EQ(there & sent, 0u) << "a gradient would count twice";
          there |= sent;
        }
      }
    });
  }

  // Steps 2 to 5, of each slice to host memory, through the NIC, and back to its GPU.
  void sum_and_exchange(const std::vector<Group>& groups, const std::vector<Slice>& slices) {
    std::map<VertexId, Buffer> memory;
    const VertexId network = host_.all(Kind::kNetwork).front();
    for (const Slice& slice : slices) {
      const auto count = static_cast<double>(slice.count);
      send_over_pcie(slice.gpu, slice.memory, count);
      Buffer& sums = memory.try_emplace(slice.memory, elements_, 0).first->second;
      for (std::uint64_t i = slice.first; i < slice.first + slice.count; ++i) {
        EXPECT_EQ(sums[i] & gradients_[slice.gpu][i], 0u);
        sums[i] |= gradients_[slice.gpu][i];
      }
      if (groups.size() > 1) summed_[slice.memory] += count;
      if (slice.group != 0) continue;
      send_over_pcie(slice.memory, slice.nic, count);
      send_over_pcie(slice.nic, slice.memory, count);
      carried_[{slice.nic, network, Bus::kPort}] += count;
      carried_[{network, slice.nic, Bus::kPort}] += count;
    }
    for (const Slice& slice : slices) {
      send_over_pcie(slice.memory, slice.gpu, static_cast<double>(slice.count));
      for (std::uint64_t i = slice.first; i < slice.first + slice.count; ++i) {
        EXPECT_EQ(memory[slice.memory][i], all_) << "element " << i << " is not all in one memory";
        results_[slice.gpu][i] = memory[slice.memory][i];
      }
    }
  }

  // Step 6: the result goes round from the GPU of the slice.
  void gather(const Group& group, const Slice& slice) {
    each_way(group, slice, [&](std::uint64_t first, std::uint64_t end, bool backwards) {
      auto ring = round_to(group, slice.gpu, backwards);
      ring.insert(ring.begin(), slice.gpu);
      for (std::size_t i = 0; i + 2 < ring.size(); ++i) {
        send_to_peer(ring[i], ring[i + 1], static_cast<double>(end - first));
        for (std::uint64_t element = first; element < end; ++element) {
          results_[ring[i + 1]][element] = results_[ring[i]][element];
        }
      }
    });
  }

  const Host& host_;
  std::uint64_t elements_;
  Contributors all_ = 0;
  std::map<VertexId, Contributors> own_;
  std::map<VertexId, Buffer> gradients_, results_;
  std::map<Hop, double> carried_;
  std::map<VertexId, double> summed_;
};

// Runs the strategy. Each link must carry what its formula says, but for `rounding` elements.
void expect_as_computed(const Routes& routes, const Strategy& strategy, std::uint64_t elements,
                        double rounding) {
  const Host& host = routes.host();
  SCOPED_TRACE(fmt::format("{}: {}", strategy.name, describe(host, strategy.groups)));
  Machine machine(host, elements);
  machine.run(strategy.groups);
  EXPECT_TRUE(machine.every_gpu_has_the_sum());
  for (ResourceId i = 0; i < routes.resources().size(); ++i) {
    const Resource& resource = routes.resources()[i];
    if (resource.type == Resource::Type::kPeer) continue;  // strategy_test.cc
    double counted = 0;
    if (resource.type == Resource::Type::kLink) {
      const Link& link = host.links[resource.index];
      counted = machine.carried(link.from, link.to, link.bus);
    } else {
      counted = machine.summed(static_cast<VertexId>(resource.index));
    }
    EXPECT_NEAR(counted, strategy.cost.loads[i] * static_cast<double>(elements), rounding)
        << routes.name(i);
  }
}

void expect_all_as_computed(const Host& host) {
  ASSERT_TRUE(check(host).ok());
  const Routes routes(host);
  const HostPlan& plan = plan_of(host);
  // Equal shares of 8, 4, 2 or 1 GPUs, halved, are whole elements. Others are rounded: each of at
  // most 8 shares in each of 8 groups by less than one element for each of 4 uses of a link.
  constexpr std::uint64_t kElements = 16 * 105;
  std::vector<Strategy> all = plan.named;
  all.push_back(plan.chosen);
  for (const Strategy& strategy : all) {
    const bool whole = std::all_of(strategy.groups.begin(), strategy.groups.end(), is_even) ||
                       strategy.cost.copies == strategy.groups.size();
    expect_as_computed(routes, strategy, kElements, whole ? 1e-6 : 8 * 8 * 4);
  }
}

TEST(StrategyDivide, CoversEveryElementOnceInEachGroup) {
  const Group uneven{{1, 2, 3}, false, {{1, 8, 9, 0.5}, {2, 8, 9, 0.1}, {3, 7, 9, 0.4}}};
  const Group even{{4, 5}, false, {{4, 8, 9, 0.3}, {5, 8, 9, 0.3}, {4, 7, 9, 0.4}}};
  for (const std::uint64_t granule : {1u, 3u, 64u}) {
    for (const std::uint64_t count : {0u, 1u, 5u, 64u, 1001u}) {
      const auto slices = divide({uneven, even}, count, granule);
      std::vector<std::uint64_t> at(2);
      std::vector<std::vector<VertexId>> memory(2);
      for (const Slice& slice : slices) {
        EXPECT_EQ(slice.first, at[slice.group]);
        EXPECT_GT(slice.count, 0u);
        at[slice.group] += slice.count;
        EXPECT_TRUE(at[slice.group] == count || at[slice.group] % granule == 0);
        memory[slice.group].insert(memory[slice.group].end(), slice.count, slice.memory);
      }
      EXPECT_THAT(at, testing::Each(count));
      EXPECT_EQ(memory[0], memory[1]);
    }
  }
}

TEST(HostSimulation, PcieSwitches) {
  expect_all_as_computed(pcie_host());
}

TEST(HostSimulation, NvlinksBetweenAllGpus) {
  expect_all_as_computed(nvlink_host());
}

TEST(HostSimulation, NvlinkPairsBelowPcieSwitches) {
  expect_all_as_computed(mixed_host(false));
}

TEST(HostSimulation, NvlinkQuadsBelowPcieSwitches) {
  expect_all_as_computed(mixed_host(true));
}

TEST(HostSimulation, RandomMachines) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(trial);
    expect_all_as_computed(random_host(random, 5));
  }
}

TEST(HostSimulation, OperationsOfFewElements) {
  const Host host = nvlink_host();
  const Routes routes(host);
  for (const Strategy& strategy : plan_of(host).named) {
    for (const std::uint64_t elements : {1u, 2u, 3u, 7u, 13u}) {
      SCOPED_TRACE(fmt::format("{} elements, {}", elements, strategy.name));
      Machine machine(host, elements);
      machine.run(strategy.groups);
      EXPECT_TRUE(machine.every_gpu_has_the_sum());
    }
  }
}

}  // namespace
}  // namespace tally::host
