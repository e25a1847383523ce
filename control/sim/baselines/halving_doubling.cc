#include <algorithm>
#include <bit>

#include "control/sim/baselines/builders.h"

namespace tally::simulator {
namespace {

// The operation has a unit for each of the first p workers, p a power of two. In step s of the
// halving a worker exchanges half of its units with the worker at distance d = p / 2^(s + 1), and
// both add up what they get. At the end worker u has the sum of unit u. The doubling goes the same
// steps back.
class Builder {
 public:
  Builder(const Question& question, Transfers& transfers)
      : question_(question),
        transfers_(transfers),
        p_(std::bit_floor(static_cast<std::uint32_t>(question.workers.size()))),
        extras_(static_cast<std::uint32_t>(question.workers.size()) - p_),
        steps_(static_cast<std::uint32_t>(std::countr_zero(p_))) {
    const std::vector<double> shares(p_, 1 / static_cast<double>(p_));
    units_ = divide(question.bytes, shares);
    chunks_ = static_cast<std::uint32_t>((units_[0] + question.chunk - 1) / question.chunk);
  }

  void build() {
    for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk) build(chunk);
  }

 private:
  std::uint32_t distance(std::uint32_t step) const { return p_ >> (step + 1); }

  // Each chunk of all units goes its own way through all steps.
  void build(std::uint32_t chunk) {
    chunk_ = chunk;
    folded_ = static_cast<std::uint32_t>(transfers_.list.size());
    for (std::uint32_t extra = 0; extra < extras_; ++extra) {
      for (std::uint32_t unit = 0; unit < p_; ++unit) add(p_ + extra, extra, unit, true);
    }
    halved_.clear();
    for (std::uint32_t step = 0; step < steps_; ++step) halve(step);
    doubled_.assign(steps_, 0);
    for (std::uint32_t step = steps_; step-- > 0;) double_back(step);
    for (std::uint32_t extra = 0; extra < extras_; ++extra) {
      for (std::uint32_t unit = 0; unit < p_; ++unit) {
        after_result(extra, unit, add(extra, p_ + extra, unit, false));
      }
    }
  }

  void halve(std::uint32_t step) {
    const std::uint32_t d = distance(step);
    const auto base = static_cast<std::uint32_t>(transfers_.list.size());
    for (std::uint32_t rank = 0; rank < p_; ++rank) {
      const std::uint32_t partner = rank ^ d;
      const std::uint32_t first = partner / d * d;  // the partner's half of the units
      for (std::uint32_t unit = first; unit < first + d; ++unit) {
        after_sums(rank, unit, step, add(rank, partner, unit, true));
      }
    }
    halved_.push_back(base);
  }

  void double_back(std::uint32_t step) {
    const std::uint32_t d = distance(step);
    const auto base = static_cast<std::uint32_t>(transfers_.list.size());
    for (std::uint32_t rank = 0; rank < p_; ++rank) {
      const std::uint32_t first = rank / d * d;
      for (std::uint32_t unit = first; unit < first + d; ++unit) {
        after_result(rank, unit, add(rank, rank ^ d, unit, false));
      }
    }
    doubled_[step] = base;
  }

  // `transfer` of this unit by this rank follows all that the rank has received of it in the steps
  // of the halving before `step`.
  void after_sums(std::uint32_t rank, std::uint32_t unit, std::uint32_t step,
                  std::uint32_t transfer) {
    if (rank < extras_) transfers_.after(folded_ + rank * p_ + unit, transfer);
    for (std::uint32_t before = 0; before < step; ++before) {
      const std::uint32_t d = distance(before);
      transfers_.after(halved_[before] + (rank ^ d) * d + unit % d, transfer);
    }
  }

  // `transfer` follows the result of this unit at this rank.
  void after_result(std::uint32_t rank, std::uint32_t unit, std::uint32_t transfer) {
    if (unit == rank) return after_sums(rank, unit, steps_, transfer);
    const std::uint32_t d = std::bit_floor(unit ^ rank);  // they differ first at this distance
    const auto step = static_cast<std::uint32_t>(std::countr_zero(p_ / d)) - 1;
    transfers_.after(doubled_[step] + (rank ^ d) * d + unit % d, transfer);
  }

  std::uint32_t add(std::uint32_t from, std::uint32_t to, std::uint32_t unit, bool sums) {
    const std::uint64_t begin = std::min(chunk_ * question_.chunk, units_[unit]);
    const auto bytes = static_cast<std::uint32_t>(std::min(question_.chunk, units_[unit] - begin));
    return transfers_.add({question_.workers[from], question_.workers[to], bytes, chunk_, sums});
  }

  const Question& question_;
  Transfers& transfers_;
  std::uint32_t p_;
  std::uint32_t extras_;
  std::uint32_t steps_;
  std::vector<std::uint64_t> units_;    // bytes
  std::uint32_t chunks_ = 0;            // of the largest unit
  std::uint32_t chunk_ = 0;             // that is built now
  std::uint32_t folded_ = 0;            // numbers of the first transfers: of the extra workers,
  std::vector<std::uint32_t> halved_;   // of each step of the halving,
  std::vector<std::uint32_t> doubled_;  // and of the doubling
};

}  // namespace

Result<Work> halving_doubling(const Question& question) {
  Transfers transfers{.list = {}, .order = {}, .bytes = question.bytes};
  Builder(question, transfers).build();
  return Work(std::move(transfers));
}

}  // namespace tally::simulator
