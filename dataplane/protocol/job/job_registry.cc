#include "dataplane/protocol/job/job_registry.h"

#include <utility>

namespace tally::protocol {

Job& JobRegistry::add(JobId job, JobSpec spec, bool one_class) {
  if (job >= jobs_.size()) jobs_.resize(job + 1);
  jobs_[job] = std::make_unique<Job>(job, std::move(spec), one_class);
  return *jobs_[job];
}

void JobRegistry::remove(JobId job) {
  for (Entry& entry : members_) entry.joined &= entry.job != job;
  for (Entry& entry : parents_) entry.joined &= entry.job != job;
  jobs_[job].reset();
}

void JobRegistry::join(JobId job, std::uint16_t child, SessionId member) {
  if (member >= members_.size()) members_.resize(member + 1);
  members_[member] = Entry{job, child, true};
  jobs_[job]->members[child].member = member;
}

void JobRegistry::leave(SessionId member) {
  members_[member].joined = false;
}

JobRegistry::Child JobRegistry::child(SessionId member) const {
  if (member >= members_.size() || !members_[member].joined) return {};
  const Entry& entry = members_[member];
  return {jobs_[entry.job].get(), static_cast<std::uint16_t>(entry.number)};
}

std::optional<std::uint16_t> JobRegistry::number_of(SessionId member) const {
  if (member >= members_.size()) return std::nullopt;
  return static_cast<std::uint16_t>(members_[member].number);
}

void JobRegistry::join_parent(JobId job, std::uint32_t parent, ParentId parent_id) {
  if (parent_id >= parents_.size()) parents_.resize(parent_id + 1);
  parents_[parent_id] = Entry{job, parent, true};
  jobs_[job]->parents[parent].parent_id = parent_id;
}

void JobRegistry::leave_parent(ParentId parent_id) {
  parents_[parent_id].joined = false;
}

JobRegistry::Parent JobRegistry::parent(ParentId parent_id) const {
  if (parent_id >= parents_.size() || !parents_[parent_id].joined) return {};
  const Entry& entry = parents_[parent_id];
  return {jobs_[entry.job].get(), entry.number};
}

}  // namespace tally::protocol
