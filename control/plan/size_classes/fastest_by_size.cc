#include "control/plan/size_classes/fastest_by_size.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tally::plan {
namespace {

constexpr double kLargest = 9007199254740992.0;  // 2^53: larger sizes are no exact doubles

// The time of a packing over a range of sizes in which it is a straight line.
struct Line {
  double at_zero = 0;
  double per_byte = 0;
};

// Around `bytes`, which is not the size at which the time bends.
Line line_of(const PackingTime& packing, const FillModel& model, double bytes) {
  const double latency = packing.fill_hops * model.hop_seconds;
  const double fill = packing.fill_seconds * static_cast<double>(model.chunk);
  if (packing.small_fill_seconds * bytes < fill) {
    return {latency, packing.tau + packing.small_fill_seconds};
  }
  return {latency + fill, packing.tau};
}

// The last sizes of ranges in which no packing begins, ends or bends.
std::set<std::uint64_t> corners(std::span<const PackingTime> packings, const FillModel& model) {
  std::set<std::uint64_t> sizes = {static_cast<std::uint64_t>(kLargest)};
  for (const PackingTime& one : packings) {
    const double fill = one.fill_seconds * static_cast<double>(model.chunk);
    const double bend = one.small_fill_seconds > 0 ? fill / one.small_fill_seconds : 0;
    if (bend >= 1 && bend < kLargest) sizes.insert(static_cast<std::uint64_t>(bend));
    if (one.smallest > 1) sizes.insert(one.smallest - 1);
    if (one.largest != UINT64_MAX) sizes.insert(one.largest);
  }
  return sizes;
}

// The last sizes of ranges in which no two packings change places.
std::set<std::uint64_t> bends(std::span<const PackingTime> packings, const FillModel& model) {
  std::set<std::uint64_t> sizes;
  double before = 0;
  for (const std::uint64_t corner : corners(packings, model)) {
    const auto last = static_cast<double>(corner);
    sizes.insert(corner);
    for (std::size_t a = 0; a < packings.size(); ++a) {
      const Line one = line_of(packings[a], model, (before + last) / 2);
      for (std::size_t b = 0; b < a; ++b) {
        const Line other = line_of(packings[b], model, (before + last) / 2);
        const double size = (other.at_zero - one.at_zero) / (one.per_byte - other.per_byte);
        if (size >= 1 && size > before && size < last) {
          sizes.insert(static_cast<std::uint64_t>(size));
        }
      }
    }
    before = last;
  }
  sizes.erase(static_cast<std::uint64_t>(kLargest));
  return sizes;
}

std::size_t fastest_at(std::span<const PackingTime> packings, double bytes,
                       const FillModel& model) {
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

double seconds_of(const PackingTime& packing, double bytes, const FillModel& model) {
  const Line line = line_of(packing, model, bytes);
  return line.at_zero + line.per_byte * bytes;
}

std::vector<SizeRange> fastest_by_size(std::span<const PackingTime> packings,
                                       const FillModel& model) {
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
