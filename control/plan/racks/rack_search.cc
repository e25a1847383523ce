#include "control/plan/racks/rack_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "control/plan/racks/groups.h"

namespace tally::plan::racks {
namespace {

// A flow below this share of what its NICs carry is slow. Measurements have some 5 % of noise.
constexpr double kSlow = 0.85;
// A link that carries this share of what the NICs of a round can is not the bottleneck.
constexpr double kFull = 0.9;
// The same for the link of another rack, whose round was another one, so there is more noise.
constexpr double kOtherFull = 0.8;
// How often a flow within a rack is slow by chance.
constexpr double kByChance = 0.02;
// How often a flow between racks is slow: where the estimates begin, and their bounds. A slow flow
// is always good evidence, so it counts as if slow flows between racks were not rare.
constexpr double kFirstShare = 0.4, kLargestShare = 0.95, kLeastOfSlow = 0.2;
constexpr int kMostEstimates = 8;
// Machines are together where nothing says otherwise.
constexpr double kWithoutEvidence = 1e-3;
// After so many rounds in which no bottleneck showed, there is none. Racks are certain after as
// many, if so many guesses in a row were the same.
constexpr std::size_t kFewestRounds = 16;
constexpr std::size_t kSameGuesses = 10;
constexpr std::size_t kFirstRounds = 4;  // drawn by chance alone

// Pairs alone, and flows in rounds: how often these are slow between racks has nothing to do with
// each other.
constexpr std::size_t kKinds = 2;

}  // namespace

// Flows of each pair of machines, in both directions together.
struct RackSearch::Counts {
  explicit Counts(std::size_t size) : machines(size) {
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      fast[kind].resize(size * size);
      slow[kind].resize(size * size);
    }
  }

  void add(std::size_t kind, const Flow& flow, double free_speed) {
    if (flow.speed <= 0) return;
    const std::size_t pair = std::min(flow.from, flow.to) * machines + std::max(flow.from, flow.to);
    ++(flow.speed < kSlow * free_speed ? slow : fast)[kind][pair];
  }

  double share_of_slow(std::size_t kind) const {
    const double all_fast = std::accumulate(fast[kind].begin(), fast[kind].end(), 0.0);
    const double all_slow = std::accumulate(slow[kind].begin(), slow[kind].end(), 0.0);
    return all_slow / std::max(all_fast + all_slow, 1.0);
  }

  std::size_t machines;
  std::array<std::vector<std::uint32_t>, kKinds> fast, slow;
};

namespace {

// Moves each machine that is alone to the group with the largest mean weight to it. A machine that
// was slow with all others looks like a rack of its own.
void place_single_machines(const Weights& weights, std::vector<std::size_t>& groups) {
  const std::vector<std::size_t> before = groups;
  std::vector<std::size_t> sizes(groups.size());
  for (const std::size_t one : before) ++sizes[one];
  if (*std::max_element(sizes.begin(), sizes.end()) < 2) {
    groups.assign(groups.size(), 0);  // all are slow with all: there is no link to find
    return;
  }
  for (std::size_t machine = 0; machine < before.size(); ++machine) {
    if (sizes[before[machine]] > 1) continue;
    std::vector<double> sums(sizes.size());
    for (std::size_t other = 0; other < before.size(); ++other) {
      if (other != machine) sums[before[other]] += weights.at(machine, other);
    }
    std::size_t best = before[machine];
    for (std::size_t one = 0; one < sizes.size(); ++one) {
      if (sizes[one] < 2) continue;
      const auto mean = [&](std::size_t of) { return sums[of] / static_cast<double>(sizes[of]); };
      if (best == before[machine] || mean(one) > mean(best)) best = one;
    }
    groups[machine] = best;
  }
}

}  // namespace

RackSearch::RackSearch(std::vector<Speeds> machines) : machines_(std::move(machines)) {}

std::vector<Flow> RackSearch::next() {
  if (!has_groups_) {
    std::vector<std::size_t> groups(machines_.size());
    if (rounds_.size() >= kFirstRounds && rounds_.size() % 2 == 0) {
      groups = find_groups();
      same_guesses_ = groups == groups_ ? same_guesses_ + 1 : 0;
      groups_ = groups;
    }
    if (rounds_.size() < kRounds && !is_certain()) return mixed(groups);
    end_rounds();
  }
  const std::size_t index = crossings_.size();
  if (count_ < 2 || index >= 2 * count_) return {};
  return crossing(index / 2, index % 2 == 0);
}

void RackSearch::add(const std::vector<Flow>& flows) {
  (has_groups_ ? crossings_ : rounds_).push_back(flows);
}

bool RackSearch::is_certain() const {
  if (rounds_.size() < kFewestRounds) return false;
  const bool is_one = *std::max_element(groups_.begin(), groups_.end()) == 0;
  return is_one || same_guesses_ >= kSameGuesses;
}

void RackSearch::end_rounds() {
  groups_ = find_groups();
  count_ = *std::max_element(groups_.begin(), groups_.end()) + 1;
  has_groups_ = true;
}

std::vector<Rack> RackSearch::racks() const {
  std::vector<Rack> racks(count_);
  if (count_ < 2) return {};
  for (std::size_t machine = 0; machine < machines_.size(); ++machine) {
    racks[groups_[machine]].machines.push_back(machine);
  }
  for (std::size_t i = 0; i < racks.size(); ++i) {
    racks[i].up = speed_of_link(i, true);
    racks[i].down = speed_of_link(i, false);
  }
  return racks;
}

// -- Evidence
// --------------------------------------------------------------------------------------

RackSearch::Counts RackSearch::count() const {
  // A machine that sends and receives at the same time may be slower than its NIC each way. Then
  // the fastest of its flows say what it can.
  std::vector<std::array<double, 2>> out(machines_.size()), in(machines_.size());
  const auto keep = [](std::array<double, 2>& fastest, double speed) {
    if (speed > fastest[0]) std::swap(speed, fastest[0]);
    fastest[1] = std::max(fastest[1], speed);
  };
  for (const auto& round : rounds_) {
    for (const Flow& flow : round) {
      keep(out[flow.from], flow.speed);
      keep(in[flow.to], flow.speed);
    }
  }
  const auto mean = [](const std::array<double, 2>& fastest) {
    return (fastest[0] + fastest[1]) / 2;
  };
  Counts counts(machines_.size());
  for (const Flow& flow : alone_) counts.add(0, flow, free_speed(flow.from, flow.to));
  for (const auto& round : rounds_) {
    for (const Flow& flow : round) {
      const double busy = std::min(mean(out[flow.from]), mean(in[flow.to]));
      counts.add(1, flow, std::min(busy, free_speed(flow.from, flow.to)));
    }
  }
  return counts;
}

double RackSearch::free_speed(std::size_t from, std::size_t to) const {
  return std::min(machines_[from].out, machines_[to].in);
}

// The weight of a pair is the logarithm of how much likelier its flows are within a rack than
// between racks. How likely slow flows between racks are depends on the network, so that is
// estimated with the racks, in turns.
std::vector<std::size_t> RackSearch::find_groups() const {
  const Counts counts = count();
  const std::size_t machines = machines_.size();
  // If no pair alone is slow, fast ones say nothing, and must not join all machines at first.
  const std::array<double, kKinds> first = {counts.share_of_slow(0), kFirstShare};
  std::array<double, kKinds> shares = first;
  std::vector<std::size_t> groups;
  for (int turn = 0; turn < kMostEstimates; ++turn) {
    Weights weights(machines);
    for (std::size_t one = 0; one < machines; ++one) {
      for (std::size_t other = one + 1; other < machines; ++other) {
        weights.add(one, other, kWithoutEvidence);
      }
    }
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      const double share = std::clamp(shares[kind], kByChance, kLargestShare);
      const double of_fast = std::log((1 - kByChance) / (1 - share));
      const double of_slow = std::log(kByChance / std::max(share, kLeastOfSlow));
      for (std::size_t one = 0; one < machines; ++one) {
        for (std::size_t other = one + 1; other < machines; ++other) {
          const std::size_t pair = one * machines + other;
          weights.add(one, other,
                      of_fast * counts.fast[kind][pair] + of_slow * counts.slow[kind][pair]);
        }
      }
    }
    auto next = group(weights);
    place_single_machines(weights, next);
    number(next);
    if (next == groups) break;
    groups = std::move(next);
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      double slow = 0, all = 0;
      for (std::size_t pair = 0; pair < machines * machines; ++pair) {
        if (groups[pair / machines] == groups[pair % machines]) continue;
        slow += counts.slow[kind][pair];
        all += counts.slow[kind][pair] + counts.fast[kind][pair];
      }
      shares[kind] = all > 0 ? (slow + 0.5) / (all + 1) : first[kind];
    }
  }
  return groups;
}

// -- Rounds
// ----------------------------------------------------------------------------------------

// Each machine sends to one other, by chance. Then pairs of flows swap their ends where more flows
// leave their groups by that.
std::vector<Flow> RackSearch::mixed(const std::vector<std::size_t>& groups) {
  const std::size_t machines = machines_.size();
  std::vector<std::size_t> to(machines);
  std::iota(to.begin(), to.end(), 0U);
  const auto is_fixed = [&] {
    for (std::size_t i = 0; i < machines; ++i) {
      if (to[i] == i) return true;
    }
    return false;
  };
  do {
    for (std::size_t i = machines; i > 1; --i) std::swap(to[i - 1], to[random_() % i]);
  } while (is_fixed());
  const auto leaves = [&](std::size_t from, std::size_t end) {
    return from == end ? -2 : groups[from] != groups[end] ? 1 : 0;
  };
  for (std::size_t i = 0; i < machines; ++i) {
    const std::size_t first = random_() % machines;
    for (std::size_t n = 0; n < machines && leaves(i, to[i]) == 0; ++n) {
      const std::size_t j = (first + n) % machines;
      if (leaves(i, to[j]) + leaves(j, to[i]) > leaves(i, to[i]) + leaves(j, to[j])) {
        std::swap(to[i], to[j]);
      }
    }
  }
  std::vector<Flow> flows;
  for (std::size_t i = 0; i < machines; ++i) flows.push_back({i, to[i]});
  return flows;
}

// Fills the link of a rack: each of its machines exchanges bytes with a machine outside. These are
// of as many racks as possible, so that no other rack is the bottleneck.
std::vector<Flow> RackSearch::crossing(std::size_t rack, bool out) const {
  std::vector<std::size_t> inside;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> outside;  // by (turn, rack)
  std::vector<std::size_t> seen(count_);
  for (std::size_t machine = 0; machine < machines_.size(); ++machine) {
    const std::size_t of = groups_[machine];
    if (of == rack) {
      inside.push_back(machine);
    } else {
      outside[{seen[of]++, of}] = machine;
    }
  }
  std::vector<Flow> flows;
  auto other = outside.begin();
  for (const std::size_t machine : inside) {
    flows.push_back(out ? Flow{machine, other->second} : Flow{other->second, machine});
    if (++other == outside.end()) other = outside.begin();
  }
  return flows;
}

double RackSearch::total(std::size_t index) const {
  double total = 0;
  if (index >= crossings_.size()) return total;
  for (const Flow& flow : crossings_[index]) total += flow.speed;
  return total;
}

// In the round of this link, links of other racks may have been full too. Flows to those racks do
// not show whether this link was. If all were full, this link cannot carry more than they do.
double RackSearch::speed_of_link(std::size_t rack, bool out) const {
  double nics = 0;
  for (std::size_t machine = 0; machine < machines_.size(); ++machine) {
    if (groups_[machine] == rack) nics += out ? machines_[machine].out : machines_[machine].in;
  }
  const std::size_t index = 2 * rack + (out ? 0 : 1);
  if (index >= crossings_.size()) return nics;
  std::map<std::size_t, std::size_t> flows_at;  // by the machine outside
  for (const Flow& flow : crossings_[index]) ++flows_at[out ? flow.to : flow.from];
  struct Sum {
    double speed = 0;
    double nics = 0;  // what these could carry
  };
  std::map<std::size_t, Sum> by_rack;
  for (const Flow& flow : crossings_[index]) {
    if (flow.speed <= 0) continue;  // the others fill the link without it
    const std::size_t outside = out ? flow.to : flow.from;
    const auto flows = static_cast<double>(flows_at[outside]);
    Sum& sum = by_rack[groups_[outside]];
    sum.speed += flow.speed;
    sum.nics += out ? std::min(machines_[flow.from].out, machines_[flow.to].in / flows)
                    : std::min(machines_[flow.from].out / flows, machines_[flow.to].in);
  }
  Sum all, shows;
  for (const auto& [other, sum] : by_rack) {
    all = {all.speed + sum.speed, all.nics + sum.nics};
    if (sum.speed >= kOtherFull * total(2 * other + (out ? 1 : 0))) continue;
    shows = {shows.speed + sum.speed, shows.nics + sum.nics};
  }
  const Sum& judged = shows.nics > 0 ? shows : all;
  return judged.speed < kFull * judged.nics ? all.speed : nics;
}

}  // namespace tally::plan::racks
