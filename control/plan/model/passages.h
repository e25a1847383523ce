// The places of a network that bytes pass and that limit a plan: each link, all links into a
// machine, all links out of it, and the sums of a machine. Loads, planners and certificates count
// bytes by the index of a passage.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "control/plan/model/network.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

struct PassagePlace {
  Passage passage = Passage::kLink;
  VertexId from = 0;    // of a link, or the machine
  VertexId to = 0;      // of a link, or the machine
  double capacity = 0;  // bytes per second
};

// The order is: the links as in the network, then of each machine by id: in, out, and its sums if
// their speed is given.
class Passages {
 public:
  // `routes` and its network must outlive this object. O(links + machines).
  explicit Passages(Routes& routes);

  std::size_t size() const { return places_.size(); }
  const PassagePlace& at(std::size_t index) const { return places_[index]; }
  double capacity(std::size_t index) const { return places_[index].capacity; }
  const Network& network() const { return routes_.network(); }

  std::size_t in(VertexId machine) const { return first_of_[machine]; }
  std::size_t out(VertexId machine) const { return first_of_[machine] + 1; }
  std::optional<std::size_t> sum(VertexId machine) const {
    if (!network().vertices[machine].sum) return std::nullopt;
    return first_of_[machine] + 2;
  }

  // Calls visit(index of a passage) for each passage that bytes cross on their way from machine to
  // machine: the route's links from its last to its first, then `from`'s out and `to`'s in. Returns
  // false when there is no route. A parent's sums are not a part of it.
  template <typename Visit>
  bool cross(VertexId from, VertexId to, Visit visit) const {
    if (!routes_.walk(from, to, [&](std::uint32_t link) { visit(std::size_t{link}); }))
      return false;
    visit(out(from));
    visit(in(to));
    return true;
  }

  // Adds `share` to the bytes of each passage, as often as one direction of a tree crosses it.
  // Every child that its parent sums counts for the parent's sums, on the way up.
  // Precondition: `bytes` has size() entries.
  void add(const Parents& parents, bool up, double share, std::vector<double>& bytes) const;

 private:
  Routes& routes_;
  std::vector<PassagePlace> places_;
  std::vector<std::size_t> first_of_;  // by machine: the index of its `in`
};

}  // namespace tally::plan
