// What can go wrong, as values. On the data path an error is one of these codes (and travels in a
// completion); constructors and configuration may throw instead (docs/errors.md).
#pragma once

#include <cstdint>
#include <string_view>

namespace tally {

// The numbers are wire format and C ABI (client/include/tally/tally.h mirrors them): append only.
enum class Status : std::uint16_t {
  kOk = 0,
  kInvalidArgument = 1,  // a value that can never be right; the message names it
  kUnsupported = 2,      // understood, but not offered by this build or machine
  kMismatch = 3,         // ranks announced one operation differently; culprit and field are named
  kDeadline = 4,         // not all ranks announced in time; culprit is the first one missing
  kPeerLost = 5,         // a rank died or its connection broke; culprit is that rank
  kPeerLeft = 6,         // a rank closed its session in good order; culprit is that rank
  kNodeLost = 7,         // the node died or its connection broke
  kCancelled = 8,        // a cancel that the owner acknowledged
  kDuplicate = 9,        // a rank announced the same operation twice
  kStaleEpoch = 10,      // announced under an epoch that is over
  kNoCredit = 11,        // more operations outstanding than the session's credit
  kBadRegion = 12,       // unknown region, or a range outside of it
  kRefused = 13,         // not admitted: token, quota or limit; the message has the numbers
  kNoMemory = 14,
  kUnavailable = 15,  // nobody answers there; the message says where
  kAgain = 16,        // nothing now, try later
  kProtocol = 17,     // the peer sent what no correct peer sends
  kInternal = 18,
  kDamaged = 19,  // bytes that do not have the checksums given for them; culprit is their rank
};

inline constexpr std::uint16_t kStatusCount = 20;

// A short lower-case name, "deadline": stable, used in logs, JSON and messages.
std::string_view status_name(Status status);

}  // namespace tally
