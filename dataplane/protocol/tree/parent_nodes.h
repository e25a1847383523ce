// This shard as a child: its vertices' connections with their parent nodes. It announces ready
// operations, reports failures, queues the tiles that a parent requests, and accepts the results
// that a parent hands down. It answers each request and each result exactly once, also when the
// operation has failed. The state of the buffers is in Job::parents. A parent that breaks the
// protocol gets Status::kProtocol. Everything runs in the shard's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/protocol/job/job.h"
#include "dataplane/protocol/job/outbox.h"
#include "dataplane/protocol/scheduling/backlog.h"
#include "dataplane/protocol/scheduling/tile_sizing.h"

namespace tally::protocol {

class ParentNodes {
 public:
  // A result of a parent that has no tile yet.
  struct Result {
    JobId job = 0;
    std::uint32_t parent = 0;
    std::uint32_t buffer = 0;
  };

  // A tile that a parent has requested, and this shard's buffer for the sum.
  struct Request {
    std::uint64_t first = 0;
    std::uint32_t count = 0;
    OwnBuffer own;
  };

  // Borrows all.
  ParentNodes(Outbox& outbox, TileScheduler& scheduler, TileSizing& sizing, Backlog& backlog)
      : outbox_(outbox), scheduler_(scheduler), sizing_(sizing), backlog_(backlog) {}
  // `results`: as many as parents may hand down at once.
  void reserve(std::size_t results) { results_.reserve(results); }
  void remove_job(JobId job);

  // The parent has joined: sends what it has missed.
  void joined(Job& job, std::uint32_t parent, Nanos now);
  // All children have announced the operation.
  void announce(Job& job, PoolIndex index, Nanos now);
  // Reports a failure of an operation that has a record here, to the vertex's parent.
  void report(const Job& job, std::uint16_t vertex, const OperationKey& key, std::uint16_t part,
              const Verdict& verdict);
  // Does the same for an operation without a record. The report waits until the parent has joined.
  void pass_on(Job& job, std::uint16_t vertex, const OperationKey& key, std::uint16_t part,
               const Verdict& verdict);
  // Sends the job's loss to all its parents except one.
  void send_broken(const Job& job, ParentId except);

  // -- requests for tiles
  Status tile_wanted(Job& job, std::uint32_t parent, const wire::VertexMessage& message);
  // Takes the operation's next request. Precondition: there is one.
  static Request take_request(Job& job, OperationRecord& operation);
  // `good`: the sum is in the buffer.
  void answer(Job& job, std::uint32_t parent, std::uint32_t buffer, bool good);
  // The operation has failed: answers the requests for which no tile was started.
  void refuse_requests(Job& job, OperationRecord& operation);

  // -- results
  Status tile_result(Job& job, std::uint32_t parent, const wire::VertexMessage& message);
  bool has_results() const { return next_ < results_.size(); }
  Result take_result();  // precondition: has_results()
  // This shard's tile of the result has ended, or a child node has it everywhere. The last of them
  // frees the buffer and answers the parent.
  void placed(Job& job, std::uint32_t parent, std::uint32_t buffer);

 private:
  void send_partial(const Job& job, const OperationRecord& operation, Nanos left);
  static bool can_sum(const Job& job, const OperationRecord& operation,
                      const wire::VertexMessage& message);

  Outbox& outbox_;
  TileScheduler& scheduler_;
  TileSizing& sizing_;
  Backlog& backlog_;
  std::vector<Result> results_;  // from next_ on
  std::size_t next_ = 0;
};

}  // namespace tally::protocol
