// For tests: which node has which part in each version of a trace. It is the choice of the model's
// coordinator (lay_out() in coordinator.pml). The events of a trace name nodes and not their parts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace tally::traces {

class TracedLayout {
 public:
  TracedLayout(std::uint32_t nodes, std::uint32_t parts) : nodes_(nodes) {
    for (std::uint32_t part = 0; part < parts; ++part) owners_[1].push_back(part);
  }

  const std::vector<std::uint32_t>& owners(std::uint32_t version) const {
    return owners_.at(version);
  }
  bool is_lost(std::uint32_t version, std::uint32_t part) const {
    return lost_.contains(owners(version).at(part));
  }
  void lose(std::uint32_t node) { lost_.insert(node); }
  // Places the version that follows `current`. `moves`: a planned change. Returns the nodes that
  // join again, because no other is left.
  std::vector<std::uint32_t> place(std::uint32_t version, std::uint32_t current, bool moves) {
    std::vector<std::uint32_t> returned;
    std::vector<std::uint32_t> next;
    for (std::uint32_t node : owners(current)) {
      if (moves) node = (node + 1) % nodes_;
      std::uint32_t free = 0;
      while (free < nodes_ && !is_usable(free, current)) ++free;
      if (lost_.contains(node) && free < nodes_) {
        node = free;
      } else if (lost_.erase(node) > 0) {
        returned.push_back(node);
      }
      next.push_back(node);
    }
    owners_[version] = next;
    return returned;
  }

 private:
  bool is_usable(std::uint32_t node, std::uint32_t current) const {
    const auto& used = owners(current);
    const bool has_part =
        used.size() > 1 && std::find(used.begin(), used.end(), node) != used.end();
    return !lost_.contains(node) && !has_part;
  }

  std::uint32_t nodes_;
  std::set<std::uint32_t> lost_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> owners_;  // by version and part
};

}  // namespace tally::traces
