// The deadlines of operations, and the names of missing ranks. An operation that is past its
// deadline fails, and its verdict names the first missing rank. When only child nodes are missing,
// they know the rank, so the vertex asks them first. A failed operation that is past its deadline
// is stuck. The caller gives the time. Everything runs in the shard's thread.
#pragma once

#include "dataplane/protocol/job/job_registry.h"
#include "dataplane/protocol/job/outbox.h"
#include "dataplane/protocol/tree/child_nodes.h"
#include "dataplane/protocol/tree/parent_nodes.h"
#include "dataplane/protocol/verdicts/verdicts.h"

namespace tally::protocol {

class Deadlines {
 public:
  // Borrows all.
  Deadlines(const JobRegistry& jobs, Outbox& outbox, Verdicts& verdicts, ParentNodes& parents,
            ChildNodes& children)
      : jobs_(jobs), outbox_(outbox), verdicts_(verdicts), parents_(parents), children_(children) {}

  // Ends operations that are past their deadline, or adds them to the stuck ones.
  void expire(Nanos now);
  // Returns the earliest deadline of any job.
  Nanos next() const;
  // The parent asks which ranks are missing in an operation.
  void asked(Job& job, const wire::VertexMessage& message, Nanos now);

 private:
  void overdue(Job& job, PoolIndex index, Nanos now);

  const JobRegistry& jobs_;
  Outbox& outbox_;
  Verdicts& verdicts_;
  ParentNodes& parents_;
  ChildNodes& children_;
};

}  // namespace tally::protocol
