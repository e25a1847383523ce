#include "net/rpc/fault_json.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/timeouts/fault_timeouts.h"

namespace tally::rpc {
namespace {

constexpr const char* kFaultKey = "fault_ms";

}  // namespace

void put_fault(nlohmann::json& answer, Nanos fault) {
  answer[kFaultKey] = static_cast<std::uint64_t>(fault / kMillisecond);
}

Nanos fault_of(const nlohmann::json& answer) {
  if (!answer.is_object()) return FaultTimeouts{}.fault;
  const auto found = answer.find(kFaultKey);
  if (found == answer.end() || !found->is_number_unsigned()) return FaultTimeouts{}.fault;
  constexpr std::uint64_t kLeastMs = FaultTimeouts::kLeast / kMillisecond;
  constexpr std::uint64_t kMostMs = FaultTimeouts::kMost / kMillisecond;
  const auto ms = std::clamp(found->get<std::uint64_t>(), kLeastMs, kMostMs);
  return static_cast<Nanos>(ms) * kMillisecond;
}

}  // namespace tally::rpc
