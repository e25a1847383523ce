// Parameter servers and BytePS: stars that differ in their shares.
#include <algorithm>

#include "control/plan/model/tree.h"
#include "control/plan/stars/star_planner.h"
#include "control/sim/baselines/builders.h"
#include "control/sim/baselines/byteps_hash.h"

namespace tally::simulator {
namespace {

// Stars at these machines. Those without bytes are left out.
Work stars(const Question& question, const std::vector<plan::VertexId>& roots,
           const std::vector<std::uint64_t>& bytes) {
  TreeSet set{.trees = {}, .bytes = {}, .chunk = question.chunk};
  for (std::size_t i = 0; i < roots.size(); ++i) {
    if (bytes[i] == 0) continue;
    set.trees.push_back(plan::Tree{
        0, plan::star_parents(question.network.machines(), question.workers, roots[i]), {}});
    set.bytes.push_back(bytes[i]);
  }
  return set;
}

Work equal_stars(const Question& question, const std::vector<plan::VertexId>& roots) {
  const std::vector<double> shares(roots.size(), 1 / static_cast<double>(roots.size()));
  return stars(question, roots, divide(question.bytes, shares));
}

// The machines of the domain: its workers, and all helpers.
std::vector<plan::VertexId> servers(const Question& question) {
  std::vector<plan::VertexId> all = question.workers;
  const auto helpers = question.helpers();
  all.insert(all.end(), helpers.begin(), helpers.end());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

Result<Work> single_server(const Question& question) {
  const auto helpers = question.helpers();
  return equal_stars(question, {helpers.empty() ? question.workers.front() : helpers.front()});
}

Result<Work> sharded_servers(const Question& question) {
  const auto helpers = question.helpers();
  if (helpers.empty()) {
    return invalid("the network has no helpers; add one, or take ps-colocated");
  }
  return equal_stars(question, helpers);
}

Result<Work> colocated_servers(const Question& question) {
  return equal_stars(question, question.workers);
}

Result<Work> byteps(const Question& question) {
  const auto all = servers(question);
  std::vector<plan::Vertex> machines;
  for (const plan::VertexId id : all) machines.push_back(question.network.vertices[id]);
  const plan::StarShares shares = plan::uniform_shares(machines);
  return stars(question, all, divide(question.bytes, shares.shares));
}

Result<Work> byteps_hash(const Question& question) {
  std::vector<plan::VertexId> roots = question.helpers();
  const std::uint64_t one_tensor[] = {question.bytes};
  const auto bytes = hashed_bytes(one_tensor, question.workers.size(), roots.size());
  roots.insert(roots.end(), question.workers.begin(), question.workers.end());
  return stars(question, roots, bytes);
}

}  // namespace tally::simulator
