// Members that have left, of this coordinator or of the one before it: plans may name them, and an
// operator may have drained them.
#include <algorithm>

#include "control/coordinator/coordinator.h"

namespace tally::control {
namespace {

bool has_machine(const SetPlan& plan, const std::string& machine) {
  const auto& machines = plan.machines.file.network.vertices;
  return std::any_of(machines.begin(), machines.end(),
                     [&](const plan::Vertex& one) { return one.name == machine; });
}

}  // namespace

// Who was a member of the one before has left until it joins here, and what it carries runs on
// without a coordinator.
void Coordinator::take_over() {
  for (const auto& [node, member] : Members(store_.members())) {
    erase_departed(member.name);
    remember_departed(node, member);
    store_.erase(node);
  }
  while (!store_.jobs().empty()) store_.erase_job(store_.jobs().begin()->first);
}

// Whom plans may name, in the order in which they have joined. Those who have left count as
// drained, and have no workers who could miss a NIC.
Members Coordinator::known_members() const {
  Members known = store_.members();
  for (auto [node, member] : store_.departed()) {
    member.draining = true;
    for (Rail& rail : member.rails) rail.up = true;
    known.emplace(node, std::move(member));
  }
  return known;
}

// That a plan names, or that is to be drained when it comes again.
bool Coordinator::matters(const Member& departed) const {
  const auto& all = plans_.all();
  return departed.draining || std::any_of(all.begin(), all.end(), [&](const auto& set) {
           return has_machine(*set.second, departed.name);
         });
}

void Coordinator::remember_departed(NodeId node, const Member& member) {
  if (matters(member)) store_.put_departed(node, member);
}

void Coordinator::forget_departed() {
  for (const auto& [node, member] : Members(store_.departed())) {
    if (!matters(member)) store_.erase_departed(node);
  }
}

bool Coordinator::is_drained_when_it_comes(const std::string& name) const {
  const Members& departed = store_.departed();
  return std::any_of(departed.begin(), departed.end(), [&](const auto& one) {
    return one.second.name == name && one.second.draining;
  });
}

void Coordinator::erase_departed(const std::string& name) {
  for (const auto& [node, member] : Members(store_.departed())) {
    if (member.name == name) store_.erase_departed(node);
  }
}

}  // namespace tally::control
