// The plans that the coordinator makes by itself: on a thread of their own, because a plan of many
// machines takes seconds.
#include <memory>
#include <optional>
#include <utility>

#include "base/log/log.h"
#include "control/coordinator/rpc/service.h"

namespace tally::control {
namespace {

void log_plan(const Result<plan::Plan>& made, std::size_t machines, bool is_in_force, Nanos took) {
  const auto ms = took / kMillisecond;
  if (!made) {
    log::warning("racks-not-planned",
                 {{"machines", machines}, {"ms", ms}, {"why", made.error().message}});
    return;
  }
  std::size_t trees = 0;
  const auto& classes = made->domains.front().classes;
  for (const plan::SizeClass& one : classes) trees += one.trees.size();
  log::info("racks-planned", {{"machines", machines},
                              {"classes", classes.size()},
                              {"trees", trees},
                              {"in_force", is_in_force},
                              {"ms", ms}});
}

}  // namespace

// The answer of a plan for an earlier term is dropped: that coordinator is gone.
void CoordinatorService::make_plan(RackPlanning::Request request) {
  if (planner_ == nullptr) planner_ = std::make_unique<ThreadPool>(io_, 1);
  const auto made = std::make_shared<std::optional<Result<plan::Plan>>>();
  const auto asked = std::make_shared<const RackPlanning::Request>(std::move(request));
  const Nanos began = monotonic_now();
  planner_->run(
      [made, asked, plan = options_.plan_for_racks] { made->emplace(plan(asked->machines)); },
      [this, made, asked, began, term = act_terms_](const Outcome& done) {
        if (term != act_terms_) return;
        const Result<plan::Plan> plan = done ? **made : Result<plan::Plan>(done.error());
        const Nanos now = monotonic_now();
        const bool is_in_force = coordinator_->planned(asked->number, plan, now);
        log_plan(plan, asked->machines.machines.size(), is_in_force, now - began);
        act();
      });
}

}  // namespace tally::control
