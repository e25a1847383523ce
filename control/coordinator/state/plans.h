// The plans that operators have set: for a job by its name, and one for all other jobs. The
// coordinator's store keeps them.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "base/result.h"
#include "control/coordinator/layout/layout.h"

namespace tally::control {

inline constexpr std::size_t kMaxPlans = 64;  // most plans at a time, because each may be as large
                                              // as a file

// What has made a plan: an operator, the closed form for stars, or the coordinator itself for
// members in racks.
enum class PlanSource : std::uint8_t { kFile, kClosedForm, kRacks };

const char* source_name(PlanSource source);  // "file", "closed form", "racks"

// An operator's plan, or the coordinator's own plan for the members at that time.
struct SetPlan {
  std::string job;  // empty: for all jobs without a plan of their own
  MachinePlan machines;
  PlanSource source = PlanSource::kFile;

  std::string title() const;  // for messages about a job: "its plan of epoch 7"
};

class Plans {
 public:
  // Borrows the store.
  explicit Plans(Store& store) : store_(store) {}

  // An error when plans for these jobs would exceed kMaxPlans.
  Outcome may_have(const std::set<std::string>& jobs) const;
  // Replaces the plan of that job. An error when there are too many.
  Outcome set(const std::string& job, MachinePlan plan);
  // Does nothing when there is none.
  void drop(const std::string& job) { store_.erase_plan(job); }
  // The job's own plan, else the one for all; nullptr when there is none, so that the
  // coordinator's own plan is in force. Jobs keep the plan that they were made by.
  std::shared_ptr<const SetPlan> find(const std::string& job) const;
  const PlansByJob& all() const { return store_.plans(); }

 private:
  Store& store_;
};

}  // namespace tally::control
