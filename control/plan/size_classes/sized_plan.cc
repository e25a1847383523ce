#include "control/plan/size_classes/sized_plan.h"

#include <algorithm>
#include <utility>

#include "control/plan/model/load.h"
#include "control/plan/model/tree.h"
#include "control/plan/model/validate.h"

namespace tally::plan {
namespace {

constexpr std::uint32_t kTwoLevels = 2;
// Of two levels, for operations that are too small for many parts.
constexpr std::size_t kFewTrees = 16;
// The trees of the best plans may be many, and slow to fill, such as stars at all workers. At most
// so many trees take 1 to 2% more per byte in networks of up to 80 machines, and fill sooner.
constexpr std::size_t kMediumTrees = 48;

std::uint32_t levels_in(const SizeClass& packing) {
  std::uint32_t levels = 0;
  for (const Tree& tree : packing.trees) {
    for (const Parents* way : {&tree.up, &tree.way_down()}) {
      const auto shape = Shape::of(*way, "");
      if (shape) levels = std::max(levels, shape->depth());
    }
  }
  return levels;
}

const SizeClass& packing_of(const Plan& plan) {
  return plan.domains.front().classes.front();
}

class SizePlanner {
 public:
  SizePlanner(const Network& network, std::span<const VertexId> workers, const SizeOptions& options)
      : network_(network), workers_(workers), options_(options) {}

  Result<Plan> run(SizeReport& report) {
    auto packed = pack(options_.packing.max_height, options_.all_trees);
    if (!packed || levels_in(packing_of(*packed)) <= 1) return packed;
    // Leaves room for the trees of other classes.
    const std::size_t most = std::max<std::size_t>(1, options_.all_trees * 3 / 4);
    if (packing_of(*packed).trees.size() > most) {
      packed = pack(options_.packing.max_height, most);
      if (!packed) return packed;
    }
    add_flatter(*packed);
    plans_.push_back(std::move(packed).value());
    return join(report);
  }

 private:
  Result<Plan> pack(std::uint32_t max_height, std::size_t most) const {
    PackingOptions packing = options_.packing;
    packing.max_height = max_height;
    packing.max_trees = std::min(most, packing.max_trees);
    return plan_packed(network_, workers_, packing);
  }

  // Adds stars, few trees of two levels, and a medium number of trees. Where there are none, as
  // where no machine reaches all workers, other trees serve all sizes.
  void add_flatter(const Plan& packed) {
    const std::size_t trees = packing_of(packed).trees.size();
    const bool has_medium = trees > kMediumTrees && network_.machines() <= kFewMachines;
    const std::size_t most = (options_.all_trees - trees) / (has_medium ? 3 : 2);
    if (most == 0) return;
    if (auto stars = pack(1, most)) plans_.push_back(std::move(stars).value());
    if (levels_in(packing_of(packed)) <= kTwoLevels && trees <= kFewTrees) return;
    if (auto few = pack(kTwoLevels, std::min(most, kFewTrees))) {
      plans_.push_back(std::move(few).value());
    }
    if (!has_medium) return;
    if (auto medium = pack(options_.packing.max_height, std::min(most, kMediumTrees))) {
      plans_.push_back(std::move(medium).value());
    }
  }

  SizeCandidate candidate_of(const Plan& plan) const {
    Routes routes(network_);
    const SizeClass& packing = packing_of(plan);
    const ClassLoad load = evaluate(routes, packing);
    SizeCandidate one{levels_in(packing),
                      packing.trees.size(),
                      {load.tau, load.fill_hops, load.fill_seconds, load.small_fill_seconds}};
    if (one.levels > 1) one.time.smallest = one.trees * options_.least_part;
    return one;
  }

  // Few trees of two levels are for operations that are too small for the next packing. The model
  // would choose them for larger ones too: it counts chunks, and nodes cut smaller tiles.
  static void limit_few(std::vector<SizeCandidate>& candidates) {
    for (std::size_t i = 0; i + 1 < candidates.size(); ++i) {
      const std::uint64_t next = candidates[i + 1].time.smallest;
      const bool are_few = candidates[i].levels > 1 && candidates[i].trees <= kFewTrees;
      if (are_few && next > candidates[i].time.smallest) candidates[i].time.largest = next - 1;
    }
  }

  Result<Plan> join(SizeReport& report) {
    std::vector<PackingTime> times;
    for (const Plan& plan : plans_) report.candidates.push_back(candidate_of(plan));
    report.candidates.front().time.smallest = 0;
    limit_few(report.candidates);
    for (const SizeCandidate& one : report.candidates) times.push_back(one.time);
    report.ranges = fastest_by_size(times, FillModel{options_.packing.chunk, options_.hop_seconds});
    Plan joined = plans_.back();
    Domain& domain = joined.domains.front();
    domain.classes.clear();
    for (const SizeRange& range : report.ranges) {
      SizeClass& one = domain.classes.emplace_back(packing_of(plans_[range.packing]));
      one.max_bytes = range.max_bytes;
      one.divided = true;
    }
    certify(plans_[report.ranges.back().packing], domain);
    if (auto valid = validate(joined, Limits{options_.packing.max_height}); !valid) {
      return valid.error();
    }
    return joined;
  }

  // The prices of one packing bound the time of every other.
  void certify(const Plan& last, Domain& domain) const {
    domain.certificate = last.domains.front().certificate;
    for (const Plan& plan : plans_) {
      const auto& other = plan.domains.front().certificate;
      if (!other || other->lower_bound <= domain.certificate->lower_bound) continue;
      domain.certificate->lower_bound = std::min(other->lower_bound, domain.certificate->tau);
      domain.certificate->dual = other->dual;
    }
  }

  const Network& network_;
  std::span<const VertexId> workers_;
  const SizeOptions& options_;
  std::vector<Plan> plans_;  // by rising number of levels
};

}  // namespace

Result<Plan> plan_by_size(const Network& network, std::span<const VertexId> workers,
                          const SizeOptions& options, SizeReport* report) {
  SizeReport unused;
  SizeReport& compared = report != nullptr ? *report : unused;
  compared = {};
  return SizePlanner(network, workers, options).run(compared);
}

}  // namespace tally::plan
