// The loss of members and parents. The first loss in a job breaks it: the epoch is over, and all
// vertices of the job learn of it. All open operations of the job fail, and later ones fail at
// once. This unit handles the ends of sessions and the news of a loss elsewhere. It owns nothing
// but borrows the jobs. Everything runs in the shard's thread.
#pragma once

#include <cstdint>

#include "dataplane/protocol/job/job_registry.h"
#include "dataplane/protocol/job/outbox.h"
#include "dataplane/protocol/tree/child_nodes.h"
#include "dataplane/protocol/tree/parent_nodes.h"
#include "dataplane/protocol/verdicts/verdicts.h"

namespace tally::protocol {

class Losses {
 public:
  // Borrows all.
  Losses(JobRegistry& jobs, Outbox& outbox, Verdicts& verdicts, ParentNodes& parents,
         ChildNodes& children)
      : jobs_(jobs), outbox_(outbox), verdicts_(verdicts), parents_(parents), children_(children) {}

  // The session of a rank or child node has ended. The child may never have joined. A second call
  // does nothing.
  void gone(Job& job, std::uint16_t child, Status why, Nanos now);
  // The session with a parent has ended. Does nothing when it has no job.
  void parent_gone(ParentId parent_id, Status why, Nanos now);
  // Another vertex reports that the job has lost a member. `from_below`, `from_above`: the session
  // that the message came from, which gets none.
  Status broken(Job& job, const wire::VertexMessage& message, SessionId from_below,
                ParentId from_above, Nanos now);
  // A child node has joined: notifies it when the job is broken.
  void joined(const Job& job, std::uint16_t child);

 private:
  void break_job(Job& job, const Verdict& verdict, SessionId from_below, ParentId from_above);
  static void forget_session(Job& job, PoolIndex index, SessionId member);
  void abandon(Job& job, PoolIndex index, std::uint16_t child, const Verdict& verdict, Nanos now);

  JobRegistry& jobs_;
  Outbox& outbox_;
  Verdicts& verdicts_;
  ParentNodes& parents_;
  ChildNodes& children_;
};

}  // namespace tally::protocol
