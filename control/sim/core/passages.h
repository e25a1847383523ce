// The passages of a network, and the ways of bytes through them. A passage is a place that bytes
// pass: a link, all links into or out of a machine, or the sums of a machine. It serves one chunk
// at a time. A way is the list of passages from a machine to another.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "control/plan/model/load.h"
#include "control/plan/model/network.h"

namespace tally::simulator {

inline constexpr std::uint32_t kNone = UINT32_MAX;

class Passages {
 public:
  // `network` must outlive this object.
  explicit Passages(const plan::Network& network);

  const plan::Network& network() const { return routes_.network(); }
  std::size_t size() const { return list_.size(); }
  // The passages have the order of plan::ClassLoad::loads. `bytes` is 0 here.
  const plan::Load& operator[](std::size_t passage) const { return list_[passage]; }

  // Returns the number of the way from one machine to another, kNone when there is no route. With
  // `sums` the machine at its end adds the bytes up.
  std::uint32_t way(plan::VertexId from, plan::VertexId to, bool sums);
  // Returns the way with the same two ends, but without sums. All ways from one machine to another
  // are one flow, as over one connection, and have this number in common.
  std::uint32_t flow(std::uint32_t way) const { return ways_[way].flow; }
  std::span<const std::uint32_t> of(std::uint32_t way) const {
    return std::span(passages_).subspan(ways_[way].first, ways_[way].count);
  }

  // The one link of a NIC limits it at least as much as the NIC does. Chunks then pass only the
  // link. Returns this link for the passage of the NIC, and kNone for other passages.
  std::uint32_t only_link(std::size_t passage) const { return only_links_[passage]; }

 private:
  struct Way {
    std::uint32_t first = 0;  // in passages_
    std::uint32_t count = 0;
    std::uint32_t flow = 0;
  };

  void append(std::uint32_t passage);

  plan::Routes routes_;
  std::vector<plan::Load> list_;
  std::vector<std::uint32_t> only_links_;
  std::vector<std::uint32_t> of_machine_;                   // the passage "in" of each machine
  std::unordered_map<std::uint64_t, std::uint32_t> found_;  // only for look-ups
  std::vector<Way> ways_;
  std::vector<std::uint32_t> passages_;
};

}  // namespace tally::simulator
