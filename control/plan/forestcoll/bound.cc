#include "control/plan/forestcoll/bound.h"

#include <numeric>

namespace tally::plan::forestcoll {
namespace {

// The fraction of the set of vertices.
Fraction fraction_of(const Capacities& capacities, std::size_t workers,
                     const std::vector<bool>& inside) {
  Fraction fraction{0, 0};
  for (std::size_t from = 0; from < capacities.vertices(); ++from) {
    if (!inside[from]) continue;
    if (from < workers) ++fraction.over;
    for (std::size_t to = 0; to < capacities.vertices(); ++to) {
      if (!inside[to]) fraction.under += capacities(from, to);
    }
  }
  return fraction;
}

bool is_less(const Fraction& one, const Fraction& other) {
  return one.over * other.under < other.over * one.under;
}

// Returns the largest fraction of the cuts that show that `fraction` is too small, or `fraction`
// when it is not. Let a source send `under` to each worker, and let all capacities be `over` times
// as large. A cut that keeps a worker from receiving N * under has a larger fraction.
Fraction larger(const Capacities& capacities, std::size_t workers, const Fraction& fraction) {
  Capacities scaled = capacities;
  for (std::size_t from = 0; from < scaled.vertices(); ++from) {
    for (std::size_t to = 0; to < scaled.vertices(); ++to) scaled(from, to) *= fraction.over;
  }
  MaxFlow flow(scaled, 1);
  const std::size_t source = scaled.vertices();
  for (std::size_t worker = 0; worker < workers; ++worker) {
    flow.add(source, worker, fraction.under);
  }
  const std::int64_t needed = static_cast<std::int64_t>(workers) * fraction.under;
  Fraction best = fraction;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    MaxFlow one = flow;
    if (one.run(source, worker, needed) >= needed) continue;
    const Fraction cut = fraction_of(capacities, workers, one.reached_from(source));
    if (cut.under == 0) return cut;
    if (is_less(best, cut)) best = cut;
  }
  return best;
}

}  // namespace

std::optional<Fraction> least_time(const Capacities& capacities, std::size_t workers) {
  // All vertices but one worker: the first cut. Then `under` stays at most its capacity.
  Fraction fraction{0, 1};
  for (std::size_t worker = 0; worker < workers; ++worker) {
    std::vector<bool> others(capacities.vertices(), true);
    others[worker] = false;
    const Fraction cut = fraction_of(capacities, workers, others);
    if (cut.under == 0) return std::nullopt;
    if (is_less(fraction, cut)) fraction = cut;
  }
  for (;;) {
    const std::int64_t divisor = std::gcd(fraction.over, fraction.under);
    fraction = {fraction.over / divisor, fraction.under / divisor};
    const Fraction next = larger(capacities, workers, fraction);
    if (next.under == 0) return std::nullopt;
    if (next == fraction) return fraction;
    fraction = next;
  }
}

}  // namespace tally::plan::forestcoll
