#include "control/plan/size_classes/fastest_by_size.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "control/plan/model/load.h"

namespace tally::plan {
namespace {

constexpr double kLargest = 9007199254740992.0;  // 2^53: larger sizes are no exact doubles

// The time of a packing over a range of sizes in which it is a straight line.
struct Line {
  double at_zero = 0;
  double per_byte = 0;
};

Line line_of(const SizeTime& packing, const FillModel& model, bool up_to_chunk) {
  const double fill = packing.fill_seconds;
  const double latency = packing.fill_hops * model.hop_seconds;
  if (up_to_chunk) return {latency, packing.tau + fill};
  return {latency + fill * static_cast<double>(model.chunk), packing.tau};
}

// The last sizes of ranges in which no two packings change places.
std::set<std::uint64_t> bends(std::span<const SizeTime> packings, const FillModel& model) {
  std::set<std::uint64_t> sizes = {model.chunk};
  const auto chunk = static_cast<double>(model.chunk);
  for (std::size_t a = 0; a < packings.size(); ++a) {
    if (packings[a].smallest > 1) sizes.insert(packings[a].smallest - 1);
    if (packings[a].largest != UINT64_MAX) sizes.insert(packings[a].largest);
    for (std::size_t b = 0; b < a; ++b) {
      for (const bool up_to_chunk : {true, false}) {
        const Line one = line_of(packings[a], model, up_to_chunk);
        const Line other = line_of(packings[b], model, up_to_chunk);
        const double size = (other.at_zero - one.at_zero) / (one.per_byte - other.per_byte);
        const bool is_here = up_to_chunk ? size >= 1 && size < chunk : size > chunk;
        if (is_here && size < kLargest) sizes.insert(static_cast<std::uint64_t>(size));
      }
    }
  }
  return sizes;
}

std::size_t fastest_at(std::span<const SizeTime> packings, double bytes, const FillModel& model) {
  constexpr double kSame = 1 - 1e-9;  // rounding must not prefer a packing
  std::size_t best = packings.size();
  double least = 0;
  for (std::size_t i = 0; i < packings.size(); ++i) {
    if (static_cast<double>(packings[i].smallest) > bytes) continue;
    if (static_cast<double>(packings[i].largest) < bytes) continue;
    const double seconds = seconds_of(packings[i], bytes, model);
    if (best < packings.size() && seconds >= least * kSame) continue;
    best = i;
    least = seconds;
  }
  return best;
}

}  // namespace

double seconds_of(const SizeTime& packing, double bytes, const FillModel& model) {
  ClassLoad load;
  load.tau = packing.tau;
  load.fill_hops = packing.fill_hops;
  load.fill_seconds = packing.fill_seconds;
  return predicted_seconds(load, bytes, static_cast<double>(model.chunk), model.hop_seconds);
}

std::vector<SizeRange> fastest_by_size(std::span<const SizeTime> packings, const FillModel& model) {
  std::vector<SizeRange> ranges;
  const auto add = [&](std::optional<std::uint64_t> max_bytes, std::size_t packing) {
    if (!ranges.empty() && ranges.back().packing == packing) {
      ranges.back().max_bytes = max_bytes;
    } else {
      ranges.push_back({max_bytes, packing});
    }
  };
  double before = 0;
  for (const std::uint64_t last : bends(packings, model)) {
    const auto size = static_cast<double>(last);
    add(last, fastest_at(packings, std::floor((before + 1 + size) / 2), model));
    before = size;
  }
  add(std::nullopt, fastest_at(packings, 2 * (before + 1), model));
  return ranges;
}

}  // namespace tally::plan
