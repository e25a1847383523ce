#include "control/plan/advice/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "control/plan/advice/bottleneck.h"
#include "control/plan/model/load.h"

namespace tally::plan {
namespace {

std::set<std::string> names_of(const Network& network, const std::vector<VertexId>& workers) {
  std::set<std::string> names;
  for (const VertexId id : workers) names.insert(network.name_of(id));
  return names;
}

Outcome check_same_workers(const std::set<std::string>& first,
                           const std::set<std::string>& second) {
  const auto lacks = [](const auto& in, const auto& of) -> const std::string* {
    const auto missing = std::find_if(of.begin(), of.end(),
                                      [&](const std::string& name) { return !in.contains(name); });
    return missing == of.end() ? nullptr : &*missing;
  };
  const std::string* only_first = lacks(second, first);
  const std::string* only_second = lacks(first, second);
  if (only_first == nullptr && only_second == nullptr) return Unit{};
  return invalid(
      fmt::format("worker \"{}\" is only in the {} plan; give plans for the same workers",
                  only_first != nullptr ? *only_first : *only_second,
                  only_first != nullptr ? "first" : "second"));
}

// By name of a place.
std::map<std::string, PlaceUse> uses_of(const Bottleneck& found, const Network& network) {
  std::map<std::string, PlaceUse> uses;
  for (const std::size_t index : found.places) {
    const Load& load = found.load.loads[index];
    uses.emplace(describe(load, network), PlaceUse{load.bytes, load.capacity, found.busy(index)});
  }
  return uses;
}

std::string binds_of(const Bottleneck& found, const Network& network) {
  return found.load.tau > 0 ? describe(found.load.loads[found.binds()], network) : "";
}

std::vector<PlacePair> pairs_of(const std::map<std::string, PlaceUse>& first,
                                const std::map<std::string, PlaceUse>& second) {
  std::vector<PlacePair> pairs;
  for (const auto& [name, use] : first) {
    const auto other = second.find(name);
    pairs.push_back(
        {name, use, other != second.end() ? std::optional(other->second) : std::nullopt});
  }
  for (const auto& [name, use] : second) {
    if (!first.contains(name)) pairs.push_back({name, std::nullopt, use});
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const PlacePair& a, const PlacePair& b) {
    return std::abs(a.more()) > std::abs(b.more());
  });
  return pairs;
}

}  // namespace

Result<Comparison> compare(const Plan& first, const Domain& of_first, const Plan& second,
                           const Domain& of_second, const ComparisonQuestion& question) {
  const auto same = check_same_workers(names_of(first.network, of_first.workers),
                                       names_of(second.network, of_second.workers));
  if (!same) return same.error();
  Routes first_routes(first.network), second_routes(second.network);
  const auto seconds = [&](Routes& routes, const Domain& domain, std::uint64_t bytes) {
    return operation_seconds(routes, size_class_of(domain, bytes), static_cast<double>(bytes),
                             question.hop_seconds);
  };
  Comparison result;
  for (const std::uint64_t bytes : question.sizes) {
    result.times.push_back(
        {bytes, seconds(first_routes, of_first, bytes), seconds(second_routes, of_second, bytes)});
  }
  const auto one = find_bottleneck(first_routes, size_class_of(of_first, question.bytes));
  const auto other = find_bottleneck(second_routes, size_class_of(of_second, question.bytes));
  result.first_tau = one.load.tau;
  result.second_tau = other.load.tau;
  result.first_binds = binds_of(one, first.network);
  result.second_binds = binds_of(other, second.network);
  result.places = pairs_of(uses_of(one, first.network), uses_of(other, second.network));
  return result;
}

}  // namespace tally::plan
