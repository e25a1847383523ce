#include "control/coordinator/layout/closed_form.h"

#include <algorithm>

#include "control/coordinator/layout/shares.h"
#include "control/plan/model/tree.h"

namespace tally::control {
namespace {

constexpr double kNominal = 1e9;  // bytes per second, when no speed is known
constexpr std::uint64_t kChunk = 256 << 10;

}  // namespace

plan::Plan closed_form_plan(const Members& members) {
  std::vector<Member> list;
  for (const auto& [node, member] : members) list.push_back(member);
  const bool known = std::any_of(list.begin(), list.end(),
                                 [](const Member& one) { return one.usable_speed() != 0; });
  std::vector<plan::Vertex> machines = machines_of(list);
  plan::Domain domain;
  domain.name = "all";
  double speeds = 0;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    if (!known) machines[i].in = machines[i].out = kNominal;
    speeds += machines[i].in;
    if (machines[i].role == plan::Role::kWorker) {
      domain.workers.push_back(static_cast<plan::VertexId>(i));
    }
  }
  if (domain.workers.empty()) {
    domain.workers.push_back(static_cast<plan::VertexId>(machines.size()));
    plan::Vertex& workers = machines.emplace_back();
    workers.name = "workers";
    workers.in = workers.out = speeds;
  }
  const auto shares = node_shares(list);
  plan::SizeClass any{{}, kChunk, 0, {}};
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == 0) continue;
    const auto root = static_cast<plan::VertexId>(i);
    any.trees.push_back({shares[i], plan::star_parents(machines.size(), domain.workers, root), {}});
  }
  domain.classes.push_back(std::move(any));
  plan::Plan made;
  made.epoch = 0;
  made.method = "star";
  made.network = plan::star_network(std::move(machines));
  made.domains.push_back(std::move(domain));
  return made;
}

}  // namespace tally::control
