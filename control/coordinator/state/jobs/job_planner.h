// Where the trees of a job go: the plan that an operator has set for it, or the coordinator's own
// plan, laid out over the members that are there now. The coordinator's own plan is that for racks
// where it fits the job, and otherwise the closed form for stars. Jobs that form and running jobs
// that change get their records here. Pure, except that the store gives new numbers. The
// coordinator's thread calls this. An error says why the members cannot serve the plan.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/coordinator/layout/layout.h"
#include "control/coordinator/state/jobs/job_table.h"
#include "control/coordinator/state/jobs/rack_planning.h"
#include "control/coordinator/state/members/cluster_members.h"
#include "control/coordinator/state/members/departed_members.h"
#include "control/coordinator/state/plans.h"

namespace tally::control {

class JobPlanner {
 public:
  // Operations of at least split_bytes are divided. Borrows the rest.
  JobPlanner(const ClusterMembers& members, const DepartedMembers& departed, const Plans& plans,
             const RackPlanning& racks, Store& store, std::uint64_t split_bytes)
      : members_(members),
        departed_(departed),
        plans_(plans),
        racks_(racks),
        store_(store),
        split_bytes_(split_bytes) {}

  // The plan by which the job would form now: the operator's plan, or the coordinator's own for the
  // present members. nullptr when all members are drained.
  std::shared_ptr<const SetPlan> in_force(const std::string& job) const;
  // Whether the job's layout depends on the machines of its ranks, so that all ranks must ask
  // before it is placed.
  bool needs_all_ranks(const std::string& job) const;
  // The job's record with the nodes and trees of the plan in force. hosts, here and below: the
  // machines of its ranks.
  Result<JobRecord> place(JobRecord job, const std::vector<std::string>& hosts) const;
  // The record that a running job changes to. It has a new epoch, and follows the job; it has the
  // job's own epoch when trees, nodes and ranks stay as they are. left_out, here and below: the
  // ranks without a place in the new version. Precondition: wanted is not kNothing.
  Result<JobRecord> next_version(const JobRecord& job, Wanted wanted,
                                 const std::vector<std::string>& hosts,
                                 const RankNumbers& left_out) const;
  // The record of the version that repairs the lost one: by the job's own plan, always with a new
  // epoch.
  Result<JobRecord> repaired(const JobRecord& job, const std::vector<std::string>& hosts,
                             const RankNumbers& left_out) const;

 private:
  using Plan = std::shared_ptr<const SetPlan>;  // nullptr: stars by the closed form

  // A plan and its layout.
  struct Chosen {
    Plan plan;
    Layout layout;
  };

  Plan closed_form() const;
  static Plan operators_plan(const JobRecord& job);  // nullptr: it has none
  std::vector<Plan> choices(const Plan& set, const Plan& before) const;
  Result<Chosen> lay_out_first(const std::vector<Plan>& plans, const JobRecord& job,
                               const std::vector<std::string>& hosts,
                               const RankNumbers& left_out) const;
  JobRecord follow(const JobRecord& job, Chosen chosen, const RankNumbers& left_out) const;
  Result<Layout> lay_out_job(const JobRecord& job, const Plan& plan,
                             const std::vector<std::string>& hosts) const;
  Result<Layout> lay_out_without(const RankNumbers& left_out, const JobRecord& job,
                                 const Plan& plan, const std::vector<std::string>& hosts) const;
  void note_plan(JobRecord& job, const Plan& plan) const;
  void give_plan(JobRecord& job, Chosen chosen) const;

  const ClusterMembers& members_;
  const DepartedMembers& departed_;
  const Plans& plans_;
  const RackPlanning& racks_;
  Store& store_;
  std::uint64_t split_bytes_;
};

}  // namespace tally::control
