// The plan that the coordinator makes by itself when members have racks. Making it may
// take seconds, so the caller makes it on another thread. Until it is there, jobs have stars. This
// class decides when a plan is needed, for which machines, and whether it still fits. Pure; the
// coordinator's thread calls it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "control/coordinator/state/members/cluster_members.h"
#include "control/coordinator/state/plans.h"
#include "control/plan/json/machines_json.h"

namespace tally::control {

class RackPlanning {
 public:
  struct Request {
    std::uint64_t number = 0;
    plan::MachineFile machines;
  };

  // is_on: the caller makes plans. If false, there never is one. Borrows the members.
  RackPlanning(const ClusterMembers& members, bool is_on) : members_(members), is_on_(is_on) {}

  // Takes note of changes of members, and returns the plan to make now. At most one is made at a
  // time, so a request for members that change meanwhile comes after it.
  std::optional<Request> take_request();
  // The plan of the request is made, or an error says why it cannot be. Returns whether it is a new
  // plan for the present members. A plan for members that have changed meanwhile is dropped.
  bool made(std::uint64_t number, Result<plan::Plan> plan);

  // The plan for the present members; nullptr: stars by the closed form. The same object until
  // members change.
  std::shared_ptr<const SetPlan> plan() const;
  // Whether that plan asks_for_hosts().
  bool needs_hosts() const { return plan() != nullptr && asks_for_hosts_; }
  // Whether members had racks when they were last looked at.
  bool has_racks() const { return !wanted_.empty(); }
  // Whether the members need a plan that is not made yet.
  bool is_due() const { return !wanted_.empty() && wanted_ != made_; }

 private:
  void note_members();

  const ClusterMembers& members_;
  const bool is_on_;
  std::uint64_t seen_ = 0;  // revision of the members
  std::uint64_t number_ = 0;
  // Each is a file of machines as text; empty: none.
  std::string wanted_;                   // of the present members
  std::string in_flight_;                // of the plan that is being made
  std::string made_;                     // of plan_
  plan::MachineFile machines_;           // of wanted_
  std::shared_ptr<const SetPlan> plan_;  // null: it could not be made
  bool asks_for_hosts_ = false;          // plan_ does
};

}  // namespace tally::control
