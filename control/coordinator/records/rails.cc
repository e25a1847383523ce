#include "control/coordinator/records/rails.h"

#include <algorithm>

namespace tally::control {
namespace {

// The speeds of these rails, in their order.
std::vector<double> speeds_of(const std::vector<Rail>& rails,
                              const std::vector<std::uint32_t>& some) {
  double sum = 0, known = 0;
  for (const std::uint32_t rail : some) {
    if (rails[rail].speed == 0) continue;
    sum += static_cast<double>(rails[rail].speed);
    ++known;
  }
  std::vector<double> speeds;
  for (const std::uint32_t rail : some) {
    const auto speed = static_cast<double>(rails[rail].speed);
    speeds.push_back(speed > 0 ? speed : known > 0 ? sum / known : 1);
  }
  return speeds;
}

// How many trees each of these rails has. The rails get trees in turn, while they have shards.
std::vector<std::uint32_t> deal_trees(const std::vector<Rail>& rails,
                                      const std::vector<std::uint32_t>& some, std::uint32_t trees) {
  std::vector<std::uint32_t> counts(some.size());
  bool any = true;
  for (std::uint32_t dealt = 0; dealt < trees && any;) {
    any = false;
    for (std::size_t i = 0; i < some.size() && dealt < trees; ++i) {
      if (counts[i] >= rails[some[i]].shards) continue;
      ++counts[i];
      ++dealt;
      any = true;
    }
  }
  return counts;
}

// Divides `share` evenly among `trees` of a rail.
void add_evenly(std::vector<RailTree>& to, std::uint32_t rail, std::uint32_t trees,
                std::uint32_t share) {
  for (std::uint32_t i = 0; i < trees; ++i) {
    to.push_back({rail, share / trees + (i < share % trees ? 1 : 0)});
  }
}

}  // namespace

void deal_shards(std::vector<Rail>& rails, std::uint32_t shards) {
  std::vector<Rail*> some;
  for (Rail& rail : rails) {
    rail.shards = 0;
    if (rail.up) some.push_back(&rail);
  }
  for (std::uint32_t i = 0; i < shards && !some.empty(); ++i) ++some[i % some.size()]->shards;
}

std::uint32_t rail_of(std::uint32_t shard, const std::vector<Rail>& rails) {
  std::vector<std::uint32_t> some;
  for (std::uint32_t i = 0; i < rails.size(); ++i) {
    if (rails[i].shards > 0) some.push_back(i);
  }
  return some.empty() ? 0 : some[shard % some.size()];
}

std::vector<std::uint32_t> rails_in_use(const std::vector<Rail>& rails) {
  const bool none = std::none_of(rails.begin(), rails.end(),
                                 [](const Rail& rail) { return rail.up && rail.shards > 0; });
  std::vector<std::uint32_t> some;
  for (std::uint32_t i = 0; i < rails.size(); ++i) {
    if (rails[i].shards > 0 && (none || rails[i].up)) some.push_back(i);
  }
  return some;
}

std::uint64_t speed_of(const std::vector<Rail>& rails) {
  const auto some = rails_in_use(rails);
  const bool known = std::any_of(some.begin(), some.end(),
                                 [&](std::uint32_t rail) { return rails[rail].speed != 0; });
  double sum = 0;
  for (const double speed : speeds_of(rails, some)) sum += speed;
  return known ? static_cast<std::uint64_t>(sum) : 0;
}

std::uint32_t usable_shards(const std::vector<Rail>& rails, std::uint32_t shards) {
  if (rails.empty()) return shards;
  std::uint32_t usable = 0;
  for (const std::uint32_t rail : rails_in_use(rails)) usable += rails[rail].shards;
  return std::min(shards, usable);
}

std::vector<RailTree> over_rails(const std::vector<Rail>& rails, std::uint32_t trees,
                                 std::uint32_t share) {
  std::vector<RailTree> made;
  if (rails.empty()) {
    add_evenly(made, 0, trees, share);
    return made;
  }
  auto some = rails_in_use(rails);
  if (some.size() > trees) {
    std::stable_sort(some.begin(), some.end(), [&](std::uint32_t a, std::uint32_t b) {
      return rails[a].speed > rails[b].speed;
    });
    some.resize(trees);
    std::sort(some.begin(), some.end());
  }
  const auto counts = deal_trees(rails, some, trees);
  const auto speeds = speeds_of(rails, some);
  double sum = 0, before = 0;
  for (std::size_t i = 0; i < some.size(); ++i) sum += counts[i] > 0 ? speeds[i] : 0;
  std::uint32_t given = 0;
  for (std::size_t i = 0; i < some.size(); ++i) {
    if (counts[i] == 0) continue;
    before += speeds[i];
    // Rounds the sum of all shares so far, so that all shares add up.
    const auto until = static_cast<std::uint32_t>(share * before / sum + 0.5);
    add_evenly(made, some[i], counts[i], until - given);
    given = until;
  }
  return made;
}

}  // namespace tally::control
