// Admission: which jobs and ranks a node accepts, by token and by limits. It is pure bookkeeping of
// the control thread. It refuses a request early, and the refusal gives the numbers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "control/coordinator/records/configured_job.h"
#include "control/coordinator/records/job_assignment.h"
#include "control/coordinator/records/rails.h"
#include "control/node/jobs/capacity.h"
#include "control/node/jobs/job_instance.h"
#include "control/node/jobs/limits.h"

namespace tally::control {

// The node drops a placed job instance that no session joins within this time, because its
// requester is gone.
inline constexpr Nanos kPlacementTimeout = 60 * kSecond;

class Admission {
 public:
  Admission(AdmissionLimits limits, std::vector<ConfiguredJob> configured);
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  struct Applicant {
    std::string job;
    Caller caller{};
    std::uint32_t rank = 0;
    std::uint32_t ranks = 1;
    std::uint32_t epoch = 0;  // epoch of the placed instance that the applicant wants to join; 0:
                              // the job is not placed
    // Set when the applicant is a child node and not a rank: the node's name, and the index of its
    // shard.
    std::string child_node{};
    std::uint32_t shard = 0;
    std::string owner{};  // owner of the job, used when this rank is the first
  };

  // Sets the node's NICs for jobs that form from now on. An empty list means one NIC, and Tally
  // does not know which.
  void set_rails(std::vector<Rail> rails) { rails_ = std::move(rails); }
  const std::vector<Rail>& rails() const { return rails_; }

  struct Admitted {
    JobInstance* instance;
    bool is_new;  // true for the first session of the instance: the shards do not know the job yet
    std::uint32_t member = 0;
  };

  // Whether what the applicant shows is enough to enter the job of that name, or to form it.
  Outcome unlocks(const Applicant& applicant) const;
  // Takes the applicant in as the rank or child node that it names, or returns why it cannot join.
  // session: the number of its session.
  Result<Admitted> admit(const Applicant& applicant, std::uint32_t session);

  // Adds the job instance that a coordinator places here, or returns why it cannot. It replaces an
  // earlier placed instance of the job that no session has joined; the caller must then drop
  // `replaced`.
  struct Placed {
    JobInstance* instance;
    JobInstance* replaced = nullptr;
  };
  Result<Placed> place(const JobAssignment& placement, Nanos now);
  // The key of the job instance with this identity of a key; nullptr when there is none.
  const net::crypto::Key* key(std::string_view identity) const;
  // Returns nullptr when that instance is gone, even when another one has its JobId or its
  // placement's number now.
  JobInstance* find(std::uint64_t identity) const;
  // The instance with that number of placement; nullptr when there is none.
  JobInstance* placed(std::uint64_t placement) const;
  // Placed instances that no session has joined for kPlacementTimeout.
  std::vector<JobInstance*> unclaimed(Nanos now) const;
  // The largest epoch that a coordinator has ever placed here.
  std::uint32_t highest_epoch() const { return highest_epoch_; }

  // Reverses admit(). Precondition: no shard knows of the admitted session.
  void unseat(const Admitted& admitted);
  // Removes the member from the instance, which is then over. Returns true for the last member: the
  // caller frees the job's JobId at the shards, and then calls release().
  bool leave(JobInstance& instance, std::uint32_t rank);
  void release(JobInstance& instance);

  // What the limits leave for the instances' regions and segments.
  const Capacity& capacity() const { return capacity_; }

  const std::vector<std::unique_ptr<JobInstance>>& instances() const { return instances_; }

 private:
  Result<JobInstance*> form(const Applicant& applicant, const ConfiguredJob* configured);
  Result<JobInstance*> placed_for(const Applicant& applicant) const;
  static Result<std::uint32_t> member_of(const JobInstance& instance, const Applicant& applicant);
  Result<Admitted> seat(JobInstance& instance, bool is_new, const Applicant& applicant,
                        std::uint32_t session);
  // Gives the job a shard at each of these rails and adds it, or returns why there is no room.
  Result<JobInstance*> add(std::unique_ptr<JobInstance> instance,
                           std::span<const std::uint32_t> shard_rails);
  // Whether that many shards can serve the placement.
  Outcome serves(const JobAssignment& placement, std::uint32_t shards) const;
  std::vector<std::uint32_t> rails_of_shards(const JobAssignment& placement,
                                             std::uint32_t shards) const;
  const ConfiguredJob* configured(const std::string& name) const;
  Result<JobLock> lock_of(const Applicant& applicant) const;
  JobInstance* current(const std::string& name) const;
  protocol::JobId free_job_id() const;
  protocol::OwnerId number_of(const std::string& owner) const;
  std::vector<std::uint32_t> least_used_shards(std::span<const std::uint32_t> shard_rails) const;

  const AdmissionLimits limits_;
  std::vector<Rail> rails_;
  std::vector<ConfiguredJob> configured_;
  std::vector<std::unique_ptr<JobInstance>> instances_;
  const Capacity capacity_{limits_, instances_};
  std::map<std::string, std::uint32_t> epochs_;  // the latest epoch of each job that has an
                                                 // instance here
  std::uint32_t highest_epoch_ = 0;
  std::uint64_t last_identity_ = 0;
};

}  // namespace tally::control
