#include "control/coordinator/closed_form.h"

#include <algorithm>
#include <numeric>

#include "control/coordinator/shares.h"
#include "control/plan/tree.h"

namespace tally::control {
namespace {

constexpr double kNominal = 1e9;  // bytes per second, where no speed is known
constexpr std::uint64_t kChunk = 256 << 10;

}  // namespace

plan::Plan closed_form_plan(const Members& members) {
  std::vector<Member> list;
  for (const auto& [node, member] : members) list.push_back(member);
  leave_out_lost_rails(list);
  std::vector<double> speeds = member_speeds(list);
  const bool known = std::any_of(list.begin(), list.end(),
                                 [](const Member& one) { return one.usable_speed() != 0; });
  if (!known) std::fill(speeds.begin(), speeds.end(), kNominal);
  std::vector<plan::Vertex> machines(list.size());
  plan::Domain domain;
  domain.name = "all";
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool worker = list[i].role == Role::kWorker;
    machines[i].role = worker ? plan::Role::kWorker : plan::Role::kHelper;
    machines[i].name = list[i].name;
    machines[i].in = machines[i].out = speeds[i];
    if (worker) domain.workers.push_back(static_cast<plan::VertexId>(i));
  }
  if (domain.workers.empty()) {
    domain.workers.push_back(static_cast<plan::VertexId>(machines.size()));
    plan::Vertex& workers = machines.emplace_back();
    workers.name = "workers";
    workers.in = workers.out = std::accumulate(speeds.begin(), speeds.end(), 0.0);
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
