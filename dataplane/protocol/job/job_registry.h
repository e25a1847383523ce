// The jobs of a shard, and the sessions of their members and parents. It finds the job and the
// number of a child or a parent by the session that a message came from. Control adds and removes;
// both allocate. Everything runs in the shard's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/protocol/job/job.h"

namespace tally::protocol {

class JobRegistry {
 public:
  // A child of a job: a rank, or the job's number of ranks + the child node's number. `job` is null
  // when the session has no job.
  struct Child {
    Job* job = nullptr;
    std::uint16_t number = 0;
  };
  struct Parent {
    Job* job = nullptr;
    std::uint32_t number = 0;
  };

  // Precondition: `job` is free. When it throws, the job is not there.
  Job& add(JobId job, JobSpec spec, bool one_class);
  // Ends the job's sessions too. Precondition: the job is there.
  void remove(JobId job);

  // Precondition: the job is there.
  Job& operator[](JobId job) const { return *jobs_[job]; }
  // Returns null when the job is not there.
  Job* find(JobId job) const { return job < jobs_.size() ? jobs_[job].get() : nullptr; }
  // By JobId; null where there is no job.
  std::span<const std::unique_ptr<Job>> all() const { return jobs_; }

  void join(JobId job, std::uint16_t child, SessionId member);
  void leave(SessionId member);
  Child child(SessionId member) const;
  // Returns the child's number in its job, also when the session has ended. Returns nothing when
  // the session is unknown.
  std::optional<std::uint16_t> number_of(SessionId member) const;

  void join_parent(JobId job, std::uint32_t parent, ParentId parent_id);
  void leave_parent(ParentId parent_id);
  Parent parent(ParentId parent_id) const;

 private:
  struct Entry {
    JobId job = 0;
    std::uint32_t number = 0;  // of the child or the parent in the job
    bool joined = false;
  };

  std::vector<std::unique_ptr<Job>> jobs_;  // by JobId
  std::vector<Entry> members_;              // by SessionId
  std::vector<Entry> parents_;              // by ParentId
};

}  // namespace tally::protocol
