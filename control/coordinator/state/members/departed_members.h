// Members that have left and still matter. A departed member matters while a plan names its
// machine, or when it was drained under the coordinator before this one and has yet to join again.
// The store keeps them. The coordinator's thread calls this; no call fails.
#pragma once

#include <string>

#include "control/coordinator/records/store.h"
#include "control/coordinator/state/plans.h"

namespace tally::control {

class DepartedMembers {
 public:
  // Borrows both. All members of the store count as departed from now on: they were members of an
  // earlier coordinator.
  DepartedMembers(Store& store, const Plans& plans);

  // Keeps the member when it matters.
  void remember(NodeId node, const Member& member);
  void erase(const std::string& name);
  // Erases members that no longer matter. Call this when a plan was set or dropped.
  void forget_unneeded();
  bool is_drained(const std::string& name) const;
  // The members that plans may name, in the order in which they joined: the present ones, and the
  // departed ones as drained. All NICs of a departed member count as up, because no worker uses
  // them.
  Members with_present() const;

 private:
  bool matters(const Member& member) const;

  Store& store_;
  const Plans& plans_;
};

}  // namespace tally::control
