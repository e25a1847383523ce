// The regions of sessions: it maps the memory of clients on this machine, adds regions of all
// clients to the shards, and counts them against the job's quota (region.check, region.register,
// region.deregister). Control thread only; threads of ClientMemory map and unmap. When memory runs
// out, the request is refused and nothing of the region is left.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <utility>

#include "control/node/jobs/capacity.h"
#include "control/node/regions/client_memory.h"
#include "control/node/session.h"
#include "control/node/shards/shard_set.h"
#include "net/rpc/params.h"

namespace tally::control {

class SessionRegions {
 public:
  // Borrows the loop, the shards and `capacity`. max_regions: the largest number of a region.
  SessionRegions(asio::io_context& io, ShardSet& shards, const Capacity& capacity,
                 MemoryCalls calls, std::uint32_t max_regions)
      : shards_(shards),
        capacity_(capacity),
        max_regions_(max_regions),
        client_memory_(io, std::move(calls)) {}

  // The request region.check: whether a region of that many bytes would be accepted now. Reserves
  // nothing.
  void check(const SharedSession& session, const rpc::Request& request, rpc::Reply reply) const;
  // The request region.register.
  void add(const SharedSession& session, rpc::Request& request, rpc::Reply reply);
  // The request region.deregister.
  void remove(const SharedSession& session, const rpc::Request& request, rpc::Reply reply);
  // Unmaps and forgets all regions of the session, then calls `then`. Precondition: no shard knows
  // the session any more, and RegionTable::give_up_mapping() has been called.
  void end(const SharedSession& session, std::function<void()> then);

 private:
  void add_remote(const SharedSession& session, const rpc::Request& request, rpc::Reply reply);
  // The number that the client requests for its region; 0 means the lowest free one.
  std::uint32_t wished_number(rpc::Params& params) const;
  // A number of the session, and room for the region in the job.
  Result<RegionId> reserve(Session& session, std::uint32_t wished, std::uint64_t bytes) const;
  void on_mapped(const SharedSession& session, RegionId id, const Outcome& done,
                 const SharedReply& answer);
  // The shards run `task`. When a shard has no memory for the region, all shards forget it.
  void add_at_shards(const SharedSession& session, RegionId id, const SharedReply& answer,
                     ShardSet::Task task);
  void deregister(const SharedSession& session, RegionId id, const SharedReply& answer);
  // Refuses while an operation reads the region. Its owner then requests it again, or leaves the
  // region to the session's end. Precondition: the session has the region.
  void remove_at_shards(const SharedSession& session, RegionId id, WorkDone then);
  // Unmaps the region's memory and forgets the region. Precondition: no shard knows the region, and
  // the session has it.
  void remove_memory(const SharedSession& session, RegionId id, std::function<void()> then);
  // Precondition: its memory is gone, and no shard knows the region.
  static void forget(Session& session, RegionId id);

  ShardSet& shards_;
  const Capacity& capacity_;
  const std::uint32_t max_regions_;
  ClientMemory client_memory_;
};

}  // namespace tally::control
