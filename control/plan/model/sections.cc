#include "control/plan/model/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "control/plan/model/plan.h"

namespace tally::plan {
namespace {

bool has_domain(const Plan& plan, const std::string& name) {
  return std::any_of(plan.domains.begin(), plan.domains.end(),
                     [&](const Domain& domain) { return domain.name == name; });
}

Outcome validate_stage(const Plan& plan, std::size_t index) {
  const StageSection& stage = plan.pipeline->stages[index];
  const auto refuse = [&](std::string_view what) {
    return invalid(fmt::format("pipeline.stages[{}].{}", index, what));
  };
  const std::uint32_t first = index == 0 ? 0 : plan.pipeline->stages[index - 1].end_block;
  if (stage.first_block != first || stage.end_block <= first) {
    return refuse(
        fmt::format("blocks = [{},{}]: must begin at {}, where the stage before ends, and "
                    "have at least one block",
                    stage.first_block, stage.end_block, first));
  }
  if (stage.ranks.empty()) return refuse("ranks: must have at least one");
  for (std::size_t i = 0; i < stage.recompute.size(); ++i) {
    const std::uint32_t block = stage.recompute[i];
    const bool is_in_order = i == 0 || block > stage.recompute[i - 1];
    if (is_in_order && block >= stage.first_block && block < stage.end_block) continue;
    return refuse(fmt::format(
        "recompute[{}] = {}: must be a block of the stage, in ascending order", i, block));
  }
  if (!has_domain(plan, stage.domain)) {
    return refuse(
        fmt::format("domain = \"{}\": must be the name of one of the domains", stage.domain));
  }
  return Unit{};
}

Outcome validate_pipeline(const Plan& plan) {
  std::vector<std::uint32_t> ranks;
  for (std::size_t i = 0; i < plan.pipeline->stages.size(); ++i) {
    if (auto stage = validate_stage(plan, i); !stage) return stage;
    const auto& more = plan.pipeline->stages[i].ranks;
    ranks.insert(ranks.end(), more.begin(), more.end());
  }
  if (ranks != plan.pipeline->order) {
    return invalid("pipeline.order: must have the ranks of all stages, one after the other");
  }
  if (std::set<std::uint32_t>(ranks.begin(), ranks.end()).size() != ranks.size()) {
    return invalid("pipeline.order: must have each rank once");
  }
  return Unit{};
}

Outcome validate_async(const Plan& plan) {
  const AsyncSection& section = *plan.async;
  const auto& vertices = plan.network.vertices;
  if (section.root >= vertices.size() || vertices[section.root].role != Role::kHelper) {
    return invalid(fmt::format("async.root = {}: must be the id of a helper", section.root));
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < section.groups.size(); ++i) {
    if (has_domain(plan, section.groups[i]) && names.insert(section.groups[i]).second) continue;
    return invalid(
        fmt::format("async.groups[{}] = \"{}\": must be the name of one of the domains, "
                    "each once",
                    i, section.groups[i]));
  }
  if (section.local_steps.size() != section.groups.size()) {
    return invalid(fmt::format("async.local_steps: {} entries; must be {}, one for each group",
                               section.local_steps.size(), section.groups.size()));
  }
  return Unit{};
}

}  // namespace

Outcome validate_sections(const Plan& plan) {
  if (plan.pipeline) {
    if (auto pipeline = validate_pipeline(plan); !pipeline) return pipeline;
  }
  return plan.async ? validate_async(plan) : Unit{};
}

}  // namespace tally::plan
