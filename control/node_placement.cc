// What a coordinator wants of the node: formings that wait for their ranks before these come.
#include <fmt/format.h>

#include <chrono>

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
                     if (!outcome) give_up(id);
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

// Its ranks hear it from the shards.
void Node::on_uplink_lost(std::uint32_t slot, const std::string& node) {
  for (const auto& forming : admission_.formings()) {
    if (forming->slot != slot) continue;
    log::warning("uplink-lost",
                 {{"job", forming->name}, {"epoch", forming->epoch}, {"node", node}});
    set_over(*forming);
  }
}

void Node::withdraw(std::uint64_t placement) {
  Forming* forming = admission_.placed(placement);
  if (forming == nullptr || forming->over) return;
  const bool unclaimed = forming->joined == 0;
  set_over(*forming);
  if (unclaimed) drop(*forming);
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
      set_over(*forming);
      drop(*forming);
    }
    const auto& all = admission_.formings();
    const bool more = std::any_of(all.begin(), all.end(), [](const auto& forming) {
      return forming->placed && forming->joined == 0 && !forming->over;
    });
    if (more) watch_placements();
  });
}

}  // namespace tally::control
