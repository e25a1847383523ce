// Errors as values. On the data path an error is one of these codes, and a completion carries it.
// Constructors and configuration may throw instead (docs/errors.md).
#pragma once

#include <cstdint>
#include <string_view>

namespace tally {

// The numbers are part of the wire format and of the C ABI (client/include/tally/tally.h mirrors
// them), so new codes are only appended.
enum class Status : std::uint16_t {
  kOk = 0,
  kInvalidArgument = 1,  // a value that is never valid; the message names it
  kUnsupported = 2,      // valid, but this build or machine does not offer it
  kMismatch = 3,         // ranks announced one operation differently; names culprit and field
  kDeadline = 4,         // not all ranks announced in time; culprit is the first missing rank
  kPeerLost = 5,         // a rank died or its connection broke; culprit is that rank
  kPeerLeft = 6,         // a rank closed its session regularly; culprit is that rank
  kNodeLost = 7,         // the node died or its connection broke
  kCancelled = 8,        // a cancel that the owning shard acknowledged
  kDuplicate = 9,        // a rank announced the same operation twice
  kStaleEpoch = 10,      // announced under an epoch that has ended
  kNoCredit = 11,        // more operations outstanding than the session's credit
  kBadRegion = 12,       // unknown region, or a range outside it
  kRefused = 13,         // not admitted because of a token, quota or limit; the message has numbers
  kNoMemory = 14,
  kUnavailable = 15,  // no process answers at the address; the message has the address
  kAgain = 16,        // nothing now; try again later
  kProtocol = 17,     // the peer sent a message that no correct peer sends
  kInternal = 18,
  kDamaged = 19,  // bytes do not match their checksums; culprit is the rank that sent them
};

inline constexpr std::uint16_t kStatusCount = 20;

// Returns a short lower-case name such as "deadline". Names are stable. Logs, JSON and messages use
// them.
std::string_view status_name(Status status);

}  // namespace tally
