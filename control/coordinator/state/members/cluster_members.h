// The members of the cluster: which nodes have joined, their NICs, their measured speeds, and which
// are drained. The store keeps them. The coordinator calls this on its thread. A refusal is an
// error that names the node and the remedy, and then nothing has changed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/coordinator/records/store.h"
#include "control/coordinator/state/members/departed_members.h"

namespace tally::control {

inline constexpr std::size_t kMaxMembers = 256;

class ClusterMembers {
 public:
  // Borrows both.
  ClusterMembers(Store& store, DepartedMembers& departed) : store_(store), departed_(departed) {}

  // Adds a member. epoch is the largest epoch of any job that was placed at the node. was: the
  // number that it had and gets again; 0: a new one.
  Result<NodeId> join(const Member& member, std::uint32_t epoch, NodeId was = 0);
  // Returns the name of the member that has left; nullopt: there is no such member. stays_drained:
  // it is drained when it joins again, if it is drained now.
  std::optional<std::string> leave(NodeId node, bool stays_drained = false);
  // Returns whether this changes the node's NICs.
  bool set_rails(NodeId node, std::vector<Rail> rails);
  // Sets measured speeds by member name. They also hold for a member that leaves and joins again.
  // Other members keep the speeds that they declare. An error: a name is no member's.
  Outcome set_speeds(std::map<std::string, Measured> measured);
  // Drains the node, or takes that back (undo). Returns whether this changes anything. Refuses a
  // node that is no member, and the last node that can have trees.
  Result<bool> drain(const std::string& name, bool undo);

  const Members& all() const { return store_.members(); }
  // Rises with each change of a member, of what is known about it, or of whether it is silent.
  std::uint64_t revision() const { return revision_; }
  // A member that is silent gets no trees. Returns whether this changes anything. Precondition: the
  // node is a member.
  bool set_silent(NodeId node, bool silent);
  bool is_silent(NodeId node) const { return silent_.contains(node); }
  // The members that may get trees: all that are not drained or silent. Lost NICs are marked.
  Members usable() const;
  Result<NodeId> find(const std::string& name) const;
  // Whether that node is a member.
  Outcome has(NodeId node) const;

 private:
  void put(NodeId node, const Member& member);
  Member with_measured(Member member) const;

  Store& store_;
  DepartedMembers& departed_;
  std::set<NodeId> silent_;
  std::uint64_t revision_ = 1;
};

}  // namespace tally::control
