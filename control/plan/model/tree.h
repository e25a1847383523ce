// Facts that follow from the parents of a tree: its root, children, heights and duties.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

// The work of a machine in a tree. A relay is a helper that has one child and is not the root.
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
  // An error names the machine whose parent is wrong ("up[3] = 9: ..."). The parent may be no
  // machine or not in the tree, or the parents may go in a circle. There is also an error when the
  // tree has no root, or several. `name`: the name of `parents` in messages.
  static Result<Shape> of(std::span<const std::int32_t> parents, std::string_view name);

  VertexId root() const { return order_.front(); }
  bool has(VertexId id) const { return depths_[id] != kAbsent; }
  // Returns the machines of the tree, parents before their children.
  std::span<const VertexId> order() const { return order_; }
  // Returns the vertex's children by ascending id, the order in which the vertex adds them.
  std::span<const VertexId> children(VertexId id) const {
    return std::span(children_).subspan(first_[id], first_[id + 1] - first_[id]);
  }
  // Returns the hops of the longest way down to a leaf. A vertex of height h needs buffers of class
  // h.
  std::uint32_t height(VertexId id) const { return heights_[id]; }
  // Returns the hops from the root.
  std::uint32_t depth_of(VertexId id) const { return depths_[id]; }
  // Returns the height of the whole tree: 1 for a star, 0 for a single machine.
  std::uint32_t depth() const { return heights_[root()]; }
  // `is_worker`: whether the machine is a worker of the domain.
  Duty duty(VertexId id, bool is_worker) const;

 private:
  static constexpr std::uint32_t kAbsent = UINT32_MAX;

  std::vector<VertexId> order_;
  std::vector<VertexId> children_;
  std::vector<std::uint32_t> first_;  // by machine: its first child in children_; and the end
  std::vector<std::uint32_t> heights_;
  std::vector<std::uint32_t> depths_;
};

// Returns the parents of a star over `machines` machines. The members other than `root` are its
// children. Other machines are not in the tree. Precondition: root and members < machines.
Parents star_parents(std::size_t machines, std::span<const VertexId> members, VertexId root);

}  // namespace tally::plan
