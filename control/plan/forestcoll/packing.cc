#include "control/plan/forestcoll/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tally::plan::forestcoll {
namespace {

class Packer {
 public:
  Packer(Capacities capacities, std::int64_t trees) : left_(std::move(capacities)) {
    for (std::size_t root = left_.vertices(); root-- > 0;) {
      const auto at = static_cast<std::uint32_t>(root);
      growing_.push_back({at, trees, {at}, std::vector<std::int32_t>(left_.vertices(), -1)});
    }
  }

  Result<std::vector<Batch>> run() {
    std::vector<Batch> whole;
    while (!growing_.empty()) {
      Batch batch = std::move(growing_.back());
      growing_.pop_back();
      grow(batch);
      if (batch.reached.size() < left_.vertices()) {
        return Error{Status::kInternal,
                     fmt::format("ForestColl: trees of root {} reach {} of {} workers", batch.root,
                                 batch.reached.size(), left_.vertices())};
      }
      whole.push_back(std::move(batch));
    }
    return whole;
  }

 private:
  // Once a link cannot be added, no later step changes that. So each link has one turn.
  void grow(Batch& batch) {
    std::vector<bool> has(left_.vertices());
    for (const std::uint32_t one : batch.reached) has[one] = true;
    for (std::size_t i = 0; i < batch.reached.size(); ++i) {
      const std::uint32_t from = batch.reached[i];
      for (std::uint32_t to = 0; to < left_.vertices(); ++to) {
        if (has[to] || left_(from, to) == 0) continue;
        const std::int64_t most = most_of(batch, from, to);
        if (most <= 0) continue;
        if (most < batch.trees) {
          growing_.push_back(batch);
          growing_.back().trees -= most;
          batch.trees = most;
        }
        left_(from, to) -= batch.trees;
        batch.parents[to] = static_cast<std::int32_t>(from);
        batch.reached.push_back(to);
        has[to] = true;
      }
    }
  }

  // Returns how many trees of the batch may use the link. The links into each set of vertices must
  // remain enough for all trees that have not reached the set. A set matters if it has `to` and not
  // `from`. The least of these cuts comes from one flow, in which `from` also sends over each other
  // batch, as much as its trees, to all that it has reached.
  std::int64_t most_of(const Batch& batch, std::uint32_t from, std::uint32_t to) const {
    MaxFlow flow(left_, growing_.size());
    std::int64_t others = 0;
    for (std::size_t i = 0; i < growing_.size(); ++i) {
      const std::size_t other = left_.vertices() + i;
      flow.add(from, other, growing_[i].trees);
      for (const std::uint32_t one : growing_[i].reached) {
        flow.add(other, one, MaxFlow::kUnlimited);
      }
      others += growing_[i].trees;
    }
    const std::int64_t most = std::min(batch.trees, left_(from, to));
    return std::min(most, flow.run(from, to, others + most) - others);
  }

  Capacities left_;
  std::vector<Batch> growing_;  // the last one is next
};

}  // namespace

Result<std::vector<Batch>> pack_trees(Capacities capacities, std::int64_t trees) {
  return Packer(std::move(capacities), trees).run();
}

}  // namespace tally::plan::forestcoll
