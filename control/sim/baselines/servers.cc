// Parameter servers and BytePS: stars that differ in their shares.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "control/plan/model/tree.h"
#include "control/plan/stars/star_planner.h"
#include "control/sim/baselines/builders.h"

namespace tally::simulator {
namespace {

constexpr std::uint64_t kBytePsPart = 4096000;  // BYTEPS_PARTITION_BYTES
constexpr std::uint64_t kBytePsBound = 101;     // BYTEPS_MIXED_MODE_BOUND

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

// DJB2 of the number's digits.
std::uint64_t djb2(std::uint64_t number) {
  std::uint64_t hash = 5381;
  for (const char digit : std::to_string(number)) {
    hash = (hash << 5) + hash + static_cast<unsigned char>(digit);
  }
  return hash;
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

// The servers at helpers come first, as in BytePS, and get the share of the first hashes that the
// closed form gives them.
Result<Work> byteps_hash(const Question& question) {
  const auto helpers = question.helpers();
  const auto n = static_cast<double>(question.workers.size());
  const auto k = static_cast<double>(helpers.size());
  const std::uint64_t bound =
      std::max<std::uint64_t>(kBytePsBound, question.workers.size() + helpers.size());
  const double below = n * (n + k) - 2 * k;
  const double ratio = n > 1 && below > 0 ? std::min(2 * k * (n - 1) / below, 1.0) : 1.0;
  std::vector<plan::VertexId> roots = helpers;
  roots.insert(roots.end(), question.workers.begin(), question.workers.end());
  std::vector<std::uint64_t> bytes(roots.size());
  std::uint64_t key = 0;
  for (std::uint64_t begin = 0; begin < question.bytes; begin += kBytePsPart, ++key) {
    const std::uint64_t hash = djb2(key) % bound;
    const bool at_helper =
        !helpers.empty() && static_cast<double>(hash) < ratio * static_cast<double>(bound);
    const std::size_t server = at_helper ? djb2(hash) % helpers.size()
                                         : helpers.size() + djb2(hash) % question.workers.size();
    bytes[server] += std::min(kBytePsPart, question.bytes - begin);
  }
  return stars(question, roots, bytes);
}

}  // namespace tally::simulator
