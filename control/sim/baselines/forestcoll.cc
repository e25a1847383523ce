#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "control/plan/forestcoll/forest.h"
#include "control/plan/model/tree.h"
#include "control/sim/baselines/builders.h"

namespace tally::simulator {
namespace {

using plan::forestcoll::Forest;
using plan::forestcoll::Trees;

// Beyond it, the search for the trees takes long.
constexpr std::size_t kMostForestWorkers = 64;
constexpr int kMostUnits = 16;  // of the slowest link

// Returns the largest unit of which all links are whole multiples, and of which the slowest one has
// at most kMostUnits; or the smallest unit that is tried.
double unit_of(const plan::Network& network) {
  double slowest = INFINITY;
  for (const plan::Link& link : network.links) slowest = std::min(slowest, link.capacity);
  for (int units = 1; units < kMostUnits; ++units) {
    const double unit = slowest / units;
    const bool fits = std::all_of(network.links.begin(), network.links.end(), [&](const auto& one) {
      const double of_link = one.capacity / unit;
      return std::abs(of_link - std::round(of_link)) < 1e-9 * of_link;
    });
    if (fits) return unit;
  }
  return slowest / kMostUnits;
}

// The same network, in which only the given workers are workers.
plan::Network with_workers(const Question& question) {
  plan::Network network = question.network;
  for (plan::VertexId id = 0; id < network.machines(); ++id) {
    const bool works = std::binary_search(question.workers.begin(), question.workers.end(), id);
    network.vertices[id].role = works ? plan::Role::kWorker : plan::Role::kHelper;
  }
  return network;
}

class TwoPhases {
 public:
  TwoPhases(const Question& question, Transfers& transfers)
      : question_(question), transfers_(transfers), has_sums_(question.network.machines(), 0) {
    for (const plan::VertexId root : question.workers) {
      has_sums_[root] = transfers.add({root, root, 0, 0, false});
    }
  }

  // Sums go up the trees. A root has the sums of its bytes when all of them have come.
  void reduce_scatter(const Forest& forest) {
    for_each_chunk(forest, [&](const Trees& trees, const plan::Shape& shape, std::uint32_t bytes,
                               std::uint32_t age) {
      std::vector<std::uint32_t> sent(question_.network.machines());
      for (std::size_t i = shape.order().size(); i-- > 0;) {
        const plan::VertexId at = shape.order()[i];
        std::uint32_t next = has_sums_[at];
        if (at != trees.root) {
          const auto parent = static_cast<plan::VertexId>(trees.parents[at]);
          next = sent[at] = transfers_.add({at, parent, bytes, age, true});
        }
        for (const plan::VertexId child : shape.children(at)) transfers_.after(sent[child], next);
      }
    });
  }

  // Results go down the trees, and are younger than all sums.
  void all_gather(const Forest& forest) {
    const std::uint32_t first = youngest_;
    for_each_chunk(forest, [&](const Trees& trees, const plan::Shape& shape, std::uint32_t bytes,
                               std::uint32_t age) {
      std::vector<std::uint32_t> got = has_sums_;
      for (const plan::VertexId at : shape.order()) {
        if (at == trees.root) continue;
        const auto parent = static_cast<plan::VertexId>(trees.parents[at]);
        got[at] = transfers_.add({parent, at, bytes, first + age, false});
        transfers_.after(got[parent], got[at]);
      }
    });
  }

 private:
  // Calls visit(trees, their shape, bytes, age) for each chunk. All roots have equal shares.
  template <typename Visit>
  void for_each_chunk(const Forest& forest, Visit visit) {
    std::vector<double> shares;
    for (const Trees& trees : forest.trees) {
      shares.push_back(static_cast<double>(trees.count) /
                       static_cast<double>(forest.trees_per_root) /
                       static_cast<double>(forest.workers));
    }
    const std::vector<std::uint64_t> bytes = divide(question_.bytes, shares);
    for (std::size_t i = 0; i < forest.trees.size(); ++i) {
      const plan::Shape shape = plan::Shape::of(forest.trees[i].parents, "parents").value();
      const std::uint64_t chunks = (bytes[i] + question_.chunk - 1) / question_.chunk;
      for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
        const std::uint64_t begin = chunk * question_.chunk;
        const std::uint64_t size = std::min(question_.chunk, bytes[i] - begin);
        const auto age = static_cast<std::uint32_t>(chunk);
        visit(forest.trees[i], shape, static_cast<std::uint32_t>(size), age);
        youngest_ = std::max(youngest_, age + 1);
      }
    }
  }

  const Question& question_;
  Transfers& transfers_;
  std::vector<std::uint32_t> has_sums_;  // by machine: the transfer to itself that says so
  std::uint32_t youngest_ = 0;
};

}  // namespace

Result<Work> forestcoll(const Question& question) {
  Transfers transfers{.list = {}, .order = {}, .bytes = question.bytes};
  if (question.workers.size() < 2) return Work(std::move(transfers));
  if (question.workers.size() > kMostForestWorkers) {
    return invalid(fmt::format("{} workers: it takes at most {}", question.workers.size(),
                               kMostForestWorkers));
  }
  const plan::Network network = with_workers(question);
  const double unit = unit_of(network);
  const auto up = plan::forestcoll::reduce_scatter(network, unit);
  if (!up) return up.error();
  const auto down = plan::forestcoll::all_gather(network, unit);
  if (!down) return down.error();
  TwoPhases phases(question, transfers);
  phases.reduce_scatter(*up);
  phases.all_gather(*down);
  return Work(std::move(transfers));
}

}  // namespace tally::simulator
