// Which operation of a job does not go on, since when, and because of which ranks or nodes. The
// functions only read. They allocate, so they are off the path of operations. The caller gives the
// time. Everything runs in the shard's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "dataplane/protocol/job/job.h"

namespace tally::protocol {

// The reason why an operation waits.
enum class Cause : std::uint8_t {
  kNotJoined,     // ranks have no session here
  kNotAnnounced,  // ranks have a session and have not announced the operation: they compute, wait
                  // for another operation, or are stopped
  kBytes,         // ranks have announced it, and pulls from them or pushes to them do not end
  kChildNode,     // a child node has not announced it, or its partial sums or results do not come
  kParentNode,    // a parent node has not requested tiles, or has not ended it
};

// An operation that waits for longer than is usual, and some of those that it waits for.
struct Stall {
  Cause cause = Cause::kNotJoined;
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  Nanos first_notice = 0;  // of the operation
  Nanos since = 0;
  // The ranks to blame, ascending. Of a child node that has not announced: the ranks below it, of
  // which at least one is missing.
  std::vector<std::uint16_t> ranks;
  std::uint32_t node = 0;  // the number in the job of the node to blame; 0: none, or unknown
  // kNotAnnounced: the latest announcement of the first of these ranks.
  bool has_last = false;
  std::uint32_t last_tag = 0;
  std::uint32_t last_round = 0;
  Nanos last_notice = 0;
};

struct Health {
  std::vector<Stall> stalls;  // all of one operation: of those that wait too long, the oldest
  // The first failure since the latest success. Cancelled operations do not count, because another
  // one has the cause.
  std::optional<TraceRecord> failure;
  Nanos last_success = 0;  // first notice of the latest operation that succeeded; 0: none
};

// An operation waits too long for announcements when it waits for kTimesUsual times the usual time
// of the job, and too long for bytes when no tile of it goes on for the usual time of a whole
// operation. Both times are medians of the latest operations, and at least kShortestStall.
inline constexpr Nanos kShortestStall = 2 * kSecond;
inline constexpr int kTimesUsual = 10;

// Returns the sessions for which the operation's tiles in flight wait.
using Awaited = std::function<std::vector<SessionId>(PoolIndex operation)>;

Health health_of(const Job& job, Nanos now, const Awaited& awaited);

}  // namespace tally::protocol
