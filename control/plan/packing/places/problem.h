// One packing problem: a network, the workers that sum together, and what follows from them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "control/plan/model/network.h"
#include "control/plan/model/passages.h"
#include "control/plan/packing/places/rows.h"
#include "control/plan/packing/places/symmetry.h"

namespace tally::plan {

// kShape: as if all speeds were equal. Then rows limit the bytes of their passages together, and
// not each passage. This is a relaxation: no plan is faster than its optimum, whose shares are no
// plan.
enum class UseSymmetry { kNo, kYes, kShape };

// Only one thread may use an object, as Routes. Other machines than the workers count as helpers,
// whatever their role.
class Problem {
 public:
  // `network` must outlive this object. Preconditions: it has passed validate(), and the workers
  // are machines of it.
  Problem(const Network& network, std::span<const VertexId> workers, UseSymmetry use)
      : workers_(workers.begin(), workers.end()),
        is_worker_(mark(network.machines(), workers)),
        routes_(network),
        passages_(routes_),
        symmetry_(find_symmetry(routes_, is_worker_)),
        is_two_way_(plan::is_two_way(routes_, symmetry_)) {
    if (use == UseSymmetry::kShape) symmetry_ = symmetry_of_shape(network, is_worker_);
    // Prices and trees of a network that is not the same both ways are found machine by machine.
    if (use == UseSymmetry::kNo || !is_two_way_) symmetry_ = no_symmetry(is_worker_);
    rows_.emplace(passages_, symmetry_, is_two_way_);
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  const Network& network() const { return routes_.network(); }
  std::size_t machines() const { return is_worker_.size(); }
  const std::vector<VertexId>& workers() const { return workers_; }
  const std::vector<bool>& is_worker() const { return is_worker_; }
  Routes& routes() const { return routes_; }
  const Passages& passages() const { return passages_; }
  const Symmetry& symmetry() const { return symmetry_; }
  bool is_two_way() const { return is_two_way_; }
  const Rows& rows() const { return *rows_; }

 private:
  static std::vector<bool> mark(std::size_t machines, std::span<const VertexId> workers) {
    std::vector<bool> is_worker(machines, false);
    for (const VertexId id : workers) is_worker[id] = true;
    return is_worker;
  }

  static Symmetry symmetry_of_shape(Network network, const std::vector<bool>& is_worker) {
    for (Vertex& vertex : network.vertices) vertex.in = vertex.out = 1;
    for (Link& link : network.links) link.capacity = 1;
    Routes routes(network);
    return find_symmetry(routes, is_worker);
  }

  std::vector<VertexId> workers_;
  std::vector<bool> is_worker_;
  mutable Routes routes_;  // finds routes when it is asked for them
  Passages passages_;
  Symmetry symmetry_;
  bool is_two_way_;
  std::optional<Rows> rows_;
};

}  // namespace tally::plan
