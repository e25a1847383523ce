#include "base/status.h"

#include <array>

namespace tally {

std::string_view status_name(Status status) {
  static constexpr std::array<std::string_view, kStatusCount> kNames = {
      "ok",         "invalid argument", "unsupported", "mismatch",    "deadline",    "peer lost",
      "peer left",  "node lost",        "cancelled",   "duplicate",   "stale epoch", "no credit",
      "bad region", "refused",          "no memory",   "unavailable", "again",       "protocol",
      "internal",   "damaged",
  };
  const auto index = static_cast<std::size_t>(status);
  return index < kNames.size() ? kNames[index] : "unknown status";
}

}  // namespace tally
