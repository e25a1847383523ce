#include "control/sim/baselines/byteps_hash.h"

#include <algorithm>
#include <string>

namespace tally::simulator {
namespace {

constexpr std::uint64_t kBound = 101;  // BYTEPS_MIXED_MODE_BOUND

// DJB2 of the number's digits.
std::uint64_t djb2(std::uint64_t number) {
  std::uint64_t hash = 5381;
  for (const char digit : std::to_string(number)) {
    hash = (hash << 5) + hash + static_cast<unsigned char>(digit);
  }
  return hash;
}

// The share of all bytes that helpers carry.
double share_of_helpers(double workers, double helpers) {
  const double below = workers * (workers + helpers) - 2 * helpers;
  if (workers < 2 || below <= 0) return 1;
  return std::min(2 * helpers * (workers - 1) / below, 1.0);
}

}  // namespace

std::vector<std::uint64_t> hashed_bytes(std::span<const std::uint64_t> tensors, std::size_t workers,
                                        std::size_t helpers) {
  const std::uint64_t bound = std::max<std::uint64_t>(kBound, workers + helpers);
  const double below_is_helper =
      static_cast<double>(bound) *
      share_of_helpers(static_cast<double>(workers), static_cast<double>(helpers));
  std::vector<std::uint64_t> bytes(helpers + workers);
  for (std::uint64_t tensor = 0; tensor < tensors.size(); ++tensor) {
    std::uint64_t key = tensor << 16;
    for (std::uint64_t begin = 0; begin < tensors[tensor]; begin += kBytePsPart, ++key) {
      const std::uint64_t hash = djb2(key) % bound;
      const bool at_helper = helpers > 0 && static_cast<double>(hash) < below_is_helper;
      const std::size_t server = at_helper ? djb2(hash) % helpers : helpers + djb2(hash) % workers;
      bytes[server] += std::min(kBytePsPart, tensors[tensor] - begin);
    }
  }
  return bytes;
}

}  // namespace tally::simulator
