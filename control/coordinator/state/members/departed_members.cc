#include "control/coordinator/state/members/departed_members.h"

#include <algorithm>

namespace tally::control {
namespace {

bool has_machine(const SetPlan& plan, const std::string& machine) {
  const auto& machines = plan.machines.file.network.vertices;
  return std::any_of(machines.begin(), machines.end(),
                     [&](const plan::Vertex& one) { return one.name == machine; });
}

}  // namespace

// The earlier coordinator may have ended between two writes, so the store may have a member twice.
DepartedMembers::DepartedMembers(Store& store, const Plans& plans) : store_(store), plans_(plans) {
  for (const auto& [node, member] : Members(store_.members())) {
    erase(member.name);
    remember(node, member);
    store_.erase(node);
  }
}

void DepartedMembers::remember(NodeId node, const Member& member) {
  if (matters(member)) store_.put_departed(node, member);
}

void DepartedMembers::erase(const std::string& name) {
  for (const auto& [node, member] : Members(store_.departed())) {
    if (member.name == name) store_.erase_departed(node);
  }
}

void DepartedMembers::forget_unneeded() {
  for (const auto& [node, member] : Members(store_.departed())) {
    if (!matters(member)) store_.erase_departed(node);
  }
}

bool DepartedMembers::is_drained(const std::string& name) const {
  const Members& departed = store_.departed();
  return std::any_of(departed.begin(), departed.end(), [&](const auto& one) {
    return one.second.name == name && one.second.draining;
  });
}

Members DepartedMembers::with_present() const {
  Members known = store_.members();
  for (auto [node, member] : store_.departed()) {
    member.draining = true;
    for (Rail& rail : member.rails) rail.up = true;
    known.emplace(node, std::move(member));
  }
  return known;
}

bool DepartedMembers::matters(const Member& member) const {
  const auto& all = plans_.all();
  return member.draining || std::any_of(all.begin(), all.end(), [&](const auto& set) {
           return has_machine(*set.second, member.name);
         });
}

}  // namespace tally::control
