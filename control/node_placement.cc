// What a coordinator wants of the node: formings that wait for their ranks before these come.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>

#include "client/cut_json.h"
#include "control/log.h"
#include "control/node.h"
#include "control/node_session.h"

namespace tally::control {
namespace {

constexpr auto kLook = std::chrono::seconds(5);  // for placements that nobody claims
// For the nodes above: the coordinator is to hear which is missing before it gives up itself.
constexpr Nanos kUplinkPatience = kPlacingPatience - 2 * kSecond;

}  // namespace

void Node::place(const Placement& placement, std::function<void(const Outcome&)> then) {
  const auto placed = admission_.place(placement, monotonic_now());
  if (!placed) return then(placed.error());
  if (placed->replaced != nullptr) drop(*placed->replaced);
  const Forming& forming = *placed->forming;
  announce(forming, [] {});
  uplinks_.connect(forming, monotonic_now() + kUplinkPatience,
                   [this, id = placement.id, then = std::move(then)](const Outcome& outcome) {
                     then(outcome);
                     if (!outcome) return give_up(id);
                     if (Forming* here = admission_.placed(id)) settle(*here);
                   });
  log::info("job-placed", {{"job", forming.name},
                           {"epoch", forming.epoch},
                           {"ranks", forming.ranks()},
                           {"trees", forming.vertices.size()},
                           {"of", forming.plan.trees},
                           {"above", forming.above.size()},
                           {"nodes", forming.nodes}});
  watch_placements();
}

// It cannot be served; the coordinator has been told.
void Node::give_up(std::uint64_t placement) {
  Forming* forming = admission_.placed(placement);
  if (forming == nullptr) return;
  log::warning("job-not-connected", {{"job", forming->name}, {"epoch", forming->epoch}});
  withdraw(placement);
}

// Its ranks hear it from the shards. A node above that has nothing left to do goes before those
// below it, when the job is over.
void Node::on_uplink_lost(std::uint32_t slot, const std::string& node) {
  for (const auto& forming : admission_.formings()) {
    if (forming->slot != slot || forming->over) continue;
    log::warning("uplink-lost",
                 {{"job", forming->name}, {"epoch", forming->epoch}, {"node", node}});
    set_over(*forming);
  }
}

// Of a job that is over. Each node may be above each other one, in different trees: so it does not
// wait until those below have gone, but until no rank is left below it in any tree, which vertices
// tell those above them.
void Node::settle(Forming& forming) {
  if (!forming.over || forming.joined == 0) return;
  std::vector<protocol::Vertex> empty;
  std::copy_if(forming.vertices.begin(), forming.vertices.end(), std::back_inserter(empty),
               [&](const protocol::Vertex& vertex) { return forming.is_empty(vertex); });
  uplinks_.tell_empty(forming, empty);
  if (empty.size() < forming.vertices.size()) return;
  for (const auto& [number, session] : std::map(by_number_)) {
    if (session->forming == &forming && !session->ending) end(session, Status::kPeerLeft, [] {});
  }
}

// In these trees no rank is left below the branch.
void Node::hear_empty(const SharedSession& session, const rpc::Request& request, rpc::Reply reply) {
  Forming& forming = *session->forming;
  const std::uint32_t trees = forming.plan.trees;
  const auto said =
      client::read_numbers(request.params.value("trees", nlohmann::json()), trees, trees - 1);
  if (!forming.is_branch(session->member) || said.empty()) {
    return reply.error(Status::kInvalidArgument,
                       "session.empty is for nodes below this one, with \"trees\"");
  }
  for (const std::uint32_t tree : said) forming.empty_below.insert({session->member, tree});
  reply.result(nlohmann::json::object());
  set_over(forming);
  settle(forming);
}

void Node::withdraw(std::uint64_t placement) {
  Forming* forming = admission_.placed(placement);
  if (forming == nullptr || forming->over) return;
  end_unclaimed(*forming);
}

// Where somebody has come, it ends when he goes.
void Node::end_unclaimed(Forming& forming) {
  set_over(forming);
  forming.joined == 0 ? drop(forming) : settle(forming);
}

void Node::forget_placements() {
  for (const auto& forming : admission_.formings()) forming->placement = 0;
}

void Node::set_over(Forming& forming) {
  if (forming.over) return;
  forming.over = true;
  tell_over(forming);
}

void Node::tell_over(Forming& forming) {
  const std::uint64_t placement = std::exchange(forming.placement, 0);
  if (placement != 0 && on_over_) on_over_(placement);
}

// Precondition: nobody has joined it, and nobody can.
void Node::drop(Forming& forming) {
  tell_over(forming);
  log::info("job-dropped", {{"job", forming.name}, {"epoch", forming.epoch}});
  remove(forming);
}

void Node::watch_placements() {
  if (std::exchange(watching_, true)) return;
  patience_.expires_after(kLook);
  patience_.async_wait([this](const std::error_code& error) {
    if (error) return;  // the node may be gone
    watching_ = false;
    for (Forming* forming : admission_.unclaimed(monotonic_now())) {
      log::warning("job-unclaimed", {{"job", forming->name}, {"epoch", forming->epoch}});
      end_unclaimed(*forming);
    }
    const auto& all = admission_.formings();
    const bool more = std::any_of(all.begin(), all.end(),
                                  [](const auto& forming) { return forming->unclaimed(); });
    if (more) watch_placements();
  });
}

}  // namespace tally::control
