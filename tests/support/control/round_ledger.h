// For tests: which rounds the versions of a simulated job have carried, and how they have ended. A
// version ends a round when all ranks have posted it there. The result then stands in the memory of
// all ranks; an eager one stands at a rank only when it arrives there. All ranks must see one
// outcome.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tally::control {

class RoundLedger {
 public:
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // epoch, tag, round

  // Borrows chance, which is true once in so many calls.
  RoundLedger(std::size_t ranks, std::function<bool(std::uint32_t)> chance,
              std::function<bool(std::uint32_t)> is_eager)
      : ranks_(ranks), chance_(std::move(chance)), is_eager_(std::move(is_eager)) {}

  // The rank has posted the round in the version.
  void contribute(std::uint32_t rank, const Key& key) {
    auto& ranks = posts_[key];
    ranks.insert(rank);
    if (ranks.size() == ranks_) full_.push_back(key);
  }
  // The rank has ended its sessions with the version.
  void fence(std::uint32_t epoch, std::uint32_t rank) { fenced_[epoch].insert(rank); }
  bool is_fenced(std::uint32_t epoch) const { return fenced_.contains(epoch); }

  // Versions end rounds, those that are not broken. A version can push no result to a rank that has
  // ended its sessions. Eager results to the other ranks may be on their way already.
  void end_rounds(const std::function<bool(std::uint32_t)>& is_broken) {
    for (const Key& key : std::vector(full_)) {
      const auto [epoch, tag, round] = key;
      if (!chance_(4)) continue;
      std::erase(full_, key);
      if (is_broken(epoch) || (!is_eager_(tag) && is_fenced(epoch))) continue;
      const bool has_ended = outcomes_.contains({tag, round});  // at some rank, in another version
      EXPECT_TRUE(!has_ended || is_eager_(tag)) << name(tag, round) << " by two versions";
      const bool fails = !has_ended && chance_(20);
      done_[key] = fails ? Status::kDeadline : Status::kOk;
      if (!fails) stands_.insert({tag, round});
    }
  }
  // How the version has ended the round; nullopt: it has not.
  std::optional<Status> done(const Key& key) const {
    const auto found = done_.find(key);
    return found == done_.end() ? std::nullopt : std::optional(found->second);
  }

  // A rank's operation has ended.
  void see(std::uint32_t tag, std::uint32_t round, Status status) {
    const auto [seen, is_first] = outcomes_.try_emplace({tag, round}, status);
    EXPECT_EQ(seen->second, status) << name(tag, round) << " at two ranks";
    EXPECT_TRUE(status != Status::kOk || stands_.contains({tag, round})) << name(tag, round);
  }

 private:
  static std::string name(std::uint32_t tag, std::uint32_t round) {
    return "tag " + std::to_string(tag) + ", round " + std::to_string(round);
  }

  std::size_t ranks_;
  std::function<bool(std::uint32_t)> chance_;
  std::function<bool(std::uint32_t)> is_eager_;
  std::map<std::uint32_t, std::set<std::uint32_t>> fenced_;  // ranks by epoch
  std::map<Key, std::set<std::uint32_t>> posts_;             // by these ranks
  std::vector<Key> full_;                                    // that all ranks have posted
  std::map<Key, Status> done_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> stands_;  // tag and round
  std::map<std::pair<std::uint32_t, std::uint32_t>, Status> outcomes_;
};

}  // namespace tally::control
