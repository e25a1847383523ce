#include "control/coordinator/state/members/cluster_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/coordinator/layout/shares.h"

namespace tally::control {

Result<NodeId> ClusterMembers::join(const Member& member, std::uint32_t epoch, NodeId was) {
  if (const auto same = find(member.name)) {
    const Member& other = all().at(*same);
    return refused(
        fmt::format("node \"{}\" is a member already, at {}: give each node a name of "
                    "its own (cluster.name)",
                    member.name, other.tcp.empty() ? other.local : other.tcp));
  }
  if (all().size() >= kMaxMembers) {
    return refused(fmt::format("node \"{}\": there are {} members, and no room for more",
                               member.name, all().size()));
  }
  const NodeId node = was != 0 ? was : store_.next_node();
  Member joined = with_measured(member);
  joined.draining = departed_.is_drained(member.name);
  put(node, joined);
  departed_.erase(member.name);
  store_.observe_epoch(epoch);
  return node;
}

std::optional<std::string> ClusterMembers::leave(NodeId node, bool stays_drained) {
  const auto found = all().find(node);
  if (found == all().end()) return std::nullopt;
  Member departed = found->second;
  if (!stays_drained)
    departed.draining = false;  // an operator drains a node to restart it, and then uses it
  departed_.remember(node, departed);
  silent_.erase(node);
  store_.erase(node);
  ++revision_;
  return departed.name;
}

bool ClusterMembers::set_rails(NodeId node, std::vector<Rail> rails) {
  const auto found = all().find(node);
  if (found == all().end() || found->second.rails == rails) return false;
  Member member = found->second;
  member.rails = std::move(rails);
  put(node, member);
  return true;
}

Outcome ClusterMembers::set_speeds(std::map<std::string, Measured> measured) {
  const Members members = all();
  for (const auto& [name, speeds] : measured) {
    if (find(name)) continue;
    return refused(
        fmt::format("there is no member \"{}\" to have this speed: tallyctl nodes "
                    "lists the members; measure again (tallyctl probe --out FILE)",
                    name));
  }
  store_.put_speeds(std::move(measured));
  for (const auto& [node, member] : members) put(node, with_measured(member));
  return Unit{};
}

Result<bool> ClusterMembers::drain(const std::string& name, bool undo) {
  const auto node = find(name);
  if (!node) return node.error();
  const bool last = std::all_of(all().begin(), all().end(), [&](const auto& other) {
    return other.first == *node || other.second.draining || is_silent(other.first);
  });
  if (!undo && last) {
    return refused(
        fmt::format("\"{}\" is the last node that can have trees: start another that joins, then "
                    "drain this one; or end the jobs and stop it",
                    name));
  }
  Member member = all().at(*node);
  const bool changed = std::exchange(member.draining, !undo) == undo;
  put(*node, member);
  return changed;
}

bool ClusterMembers::set_silent(NodeId node, bool silent) {
  const bool changes = silent ? silent_.insert(node).second : silent_.erase(node) > 0;
  if (changes) ++revision_;
  return changes;
}

// A drained node's lost NICs count, because its workers still run.
Members ClusterMembers::usable() const {
  Members usable = without_lost_rails(all());
  std::erase_if(usable, [this](const auto& member) {
    return member.second.draining || silent_.contains(member.first);
  });
  return usable;
}

Result<NodeId> ClusterMembers::find(const std::string& name) const {
  const auto found = std::find_if(all().begin(), all().end(),
                                  [&](const auto& one) { return one.second.name == name; });
  if (found != all().end()) return found->first;
  return refused(fmt::format("there is no member \"{}\": tallyctl nodes lists the members", name));
}

Outcome ClusterMembers::has(NodeId node) const {
  if (all().contains(node)) return Unit{};
  return refused(fmt::format("there is no member {}: cluster.join first", node));
}

void ClusterMembers::put(NodeId node, const Member& member) {
  store_.put(node, member);
  ++revision_;
}

// A measured speed overrides the speed that a member declares.
Member ClusterMembers::with_measured(Member member) const {
  const auto found = store_.speeds().find(member.name);
  member.measured = found == store_.speeds().end() ? Measured{} : found->second;
  return member;
}

}  // namespace tally::control
