// What follows from the parents of a tree: its root, children, heights and who does what.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/plan/plan.h"

namespace tally::plan {

// What a machine does in a tree. A helper with one child that is not the root is a relay.
enum class Duty : std::uint8_t {
  kNone,
  kLeafWorker,
  kInnerWorker,  // adds its own gradient
  kInnerHelper,
  kRelay,
  kRootWorker,
  kRootHelper,
};

std::string_view duty_name(Duty duty);

class Shape {
 public:
  // An error names the machine whose parent is wrong ("up[3] = 9: ..."): not a machine, not in the
  // tree, a circle, or not one root. `name`: of the parents, for messages.
  static Result<Shape> of(std::span<const std::int32_t> parents, std::string_view name);

  VertexId root() const { return order_.front(); }
  bool has(VertexId id) const { return depths_[id] != kAbsent; }
  // Of all machines, parents before their children.
  std::span<const VertexId> order() const { return order_; }
  // By id: the order in which a vertex adds them.
  std::span<const VertexId> children(VertexId id) const {
    return std::span(children_).subspan(first_[id], first_[id + 1] - first_[id]);
  }
  // The longest way down to a leaf; a vertex of height h needs slots of class h.
  std::uint32_t height(VertexId id) const { return heights_[id]; }
  // Hops from the root.
  std::uint32_t depth_of(VertexId id) const { return depths_[id]; }
  // Of the whole tree: a star has 1, a lone machine 0.
  std::uint32_t depth() const { return heights_[root()]; }
  // `is_worker`: whether its gradient is wanted.
  Duty duty(VertexId id, bool is_worker) const;

 private:
  static constexpr std::uint32_t kAbsent = UINT32_MAX;

  std::vector<VertexId> order_;
  std::vector<VertexId> children_;
  std::vector<std::uint32_t> first_;  // of each machine's children, and the end
  std::vector<std::uint32_t> heights_;
  std::vector<std::uint32_t> depths_;
};

// Of so many machines, the members other than `root` are its children; the rest is not in the tree.
// Precondition: root and members < machines.
Parents star_parents(std::size_t machines, std::span<const VertexId> members, VertexId root);

}  // namespace tally::plan
