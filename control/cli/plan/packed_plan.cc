#include "control/cli/plan/packed_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/speed.h"
#include "control/cli/plan/figures.h"
#include "control/cli/plan/network_file.h"
#include "control/plan/json/plan_json.h"
#include "control/plan/model/load.h"
#include "control/plan/model/tree.h"
#include "control/plan/packing/packed_planner.h"
#include "control/plan/rs_ag/rs_ag_planner.h"
#include "control/plan/size_classes/sized_plan.h"

namespace tally::control {

using nlohmann::json;

namespace {

// A build with Clp never makes such plans.
constexpr std::string_view kByWeights =
    "by multiplicative weights, because this tallyctl was built without Clp (Debian: "
    "coinor-libclp-dev); with it plans are up to some percent faster\n";

constexpr std::string_view kOtherWay =
    "links differ by direction, or sums limit: a plan may be faster whose results go another way "
    "than the sums came (--any-way, which takes minutes for large networks)\n";

// Times its bound: above it, a plan for reduce-scatters and all-gathers may have too few trees for
// its roots.
constexpr double kFarFromBound = 1.1;

// Whether trees whose results go back the way that the sums came may be slower than others. They
// are not where each link is as fast in both directions and no sums limit.
bool differs_by_direction(const plan::Network& network) {
  std::map<std::pair<plan::VertexId, plan::VertexId>, double> speeds;
  for (const plan::Link& link : network.links) speeds[{link.from, link.to}] = link.capacity;
  const auto is_even = [&](const plan::Link& link) {
    const auto back = speeds.find({link.to, link.from});
    return back != speeds.end() && back->second == link.capacity;
  };
  return !std::all_of(network.links.begin(), network.links.end(), is_even) ||
         std::any_of(network.vertices.begin(), network.vertices.end(), [](const plan::Vertex& one) {
           return one.in != one.out || (one.sum && *one.sum < one.in);
         });
}

// The search for few levels may cost 2%.
bool may_gain_by_other_way(const plan::Plan& plan, const plan::Certificate& certificate) {
  const plan::SizeClass& last = plan.domains[0].classes.back();
  return !last.rs_ag && !last.has_other_way() && certificate.tau > 1.03 * certificate.lower_bound &&
         differs_by_direction(plan.network);
}

json describe_class(plan::Routes& routes, const plan::SizeClass& size_class) {
  std::uint32_t levels = 0;
  for (const plan::Tree& tree : size_class.trees) {
    const auto shape = plan::Shape::of(tree.up, "up");
    if (shape) levels = std::max(levels, shape->depth());
  }
  return {{"max_bytes", size_class.max_bytes ? json(*size_class.max_bytes) : json()},
          {"levels", levels},
          {"trees", size_class.trees.size()},
          {"tau", plan::evaluate(routes, size_class).tau}};
}

// "up to 641145 bytes: 9 trees of 1 level, 4 ns per byte"
std::string render_class(const json& one, std::uint64_t from) {
  const auto levels = one["levels"].get<std::uint32_t>();
  const std::string sizes =
      one["max_bytes"].is_null()
          ? fmt::format("from {} bytes on", from)
          : fmt::format("up to {} bytes", one["max_bytes"].get<std::uint64_t>());
  return fmt::format("{}: {} trees of {} level{}, {:.4g} ns per byte\n", sizes,
                     one["trees"].get<std::size_t>(), levels, levels == 1 ? "" : "s",
                     one["tau"].get<double>() * 1e9);
}

}  // namespace

Result<plan::Plan> plan_for_network(const std::string& path, const NetworkPlanOptions& options) {
  const auto in_file = [&path](const Error& error) {
    return Error{error.status, fmt::format("--network {}: {}", path, error.message)};
  };
  const auto network = read_network_file(path);
  if (!network) return Error{network.status(), "--network " + network.error().message};
  std::vector<plan::VertexId> workers;
  for (plan::VertexId id = 0; id < network->vertices.size(); ++id) {
    if (network->vertices[id].role == plan::Role::kWorker) workers.push_back(id);
  }
  if (workers.empty()) {
    return in_file(
        {Status::kInvalidArgument, "no machine has the role \"worker\"; give at least one"});
  }
  if (options.rs_ag) {
    auto plan = plan::plan_rs_ag(
        *network, workers,
        {.chunk = options.chunk, .epoch = options.epoch, .one_class = options.one_class});
    if (!plan) return in_file(plan.error());
    return plan;
  }
  plan::SizeOptions sizes;
  sizes.packing.chunk = options.chunk;
  sizes.packing.epoch = options.epoch;
  sizes.packing.max_trees = options.max_trees;
  sizes.hop_seconds = options.hop_seconds;
  if (options.any_way) {
    sizes.packing.way_down = plan::WayDown::kAnyWay;
    sizes.all_trees = plan::kServedTrees / 2;  // each may count as two
    sizes.packing.max_trees = std::min(options.max_trees, sizes.all_trees);
  }
  auto plan = options.one_class ? plan::plan_packed(*network, workers, sizes.packing)
                                : plan::plan_by_size(*network, workers, sizes);
  if (!plan) return in_file(plan.error());
  return plan;
}

json describe_packed(const plan::Plan& plan) {
  const plan::Domain& domain = plan.domains[0];
  const plan::SizeClass& last = domain.classes.back();
  plan::Routes routes(plan.network);
  const plan::ClassLoad load = plan::evaluate(routes, last);
  const std::size_t machines = plan.network.machines();
  json classes = json::array();
  for (const plan::SizeClass& one : domain.classes) {
    classes.push_back(describe_class(routes, one));
  }
  return {{"method", plan.method},
          {"objective", plan::objective(plan)},
          {"workers", domain.workers.size()},
          {"helpers", machines - domain.workers.size()},
          {"switches", plan.network.vertices.size() - machines},
          {"trees", last.trees.size()},
          {"classes", std::move(classes)},
          {"tau", domain.certificate->tau},
          {"lower_bound", domain.certificate->lower_bound},
          {"may_gain_by_any_way", may_gain_by_other_way(plan, *domain.certificate)},
          {"binds", load.tau > 0 ? plan::describe(load.loads[load.binds], plan.network) : ""}};
}

std::string render_packed(const json& described) {
  std::string text = fmt::format(
      "workers: {}, helpers: {}, switches: {}\n", described["workers"].get<std::size_t>(),
      described["helpers"].get<std::size_t>(), described["switches"].get<std::size_t>());
  const double tau = described["tau"], bound = described["lower_bound"];
  if (tau <= 0) return text + "one worker: nothing travels\n";
  text += fmt::format("{} trees ({}): {:.4g} ns per byte ({}); {} limits\n",
                      described["trees"].get<std::size_t>(), described["method"].get<std::string>(),
                      tau * 1e9, speed_text(1 / tau), described["binds"].get<std::string>());
  if (described["method"] == "tpp-mwu") text += kByWeights;
  text += objective_note(described["objective"].get<std::string>());
  const json& classes = described["classes"];
  std::uint64_t from = 0;
  for (const json& one : classes) {
    if (classes.size() > 1) text += "  " + render_class(one, from);
    if (!one["max_bytes"].is_null()) from = one["max_bytes"].get<std::uint64_t>() + 1;
  }
  text += fmt::format("lower bound {:.4g} ns per byte: at most {:.2f}% from the best\n",
                      bound * 1e9, 100 * (std::max(tau / bound, 1.0) - 1));
  if (described["may_gain_by_any_way"]) text += kOtherWay;
  if (described["objective"] == "rs-ag" && tau > kFarFromBound * bound) {
    text += fmt::format(
        "a ring may be faster: each worker roots trees of its own, and a plan has at most {} trees "
        "(docs/planning.md, \"Reduce-scatter and all-gather\")\n",
        plan::kServedTrees);
  }
  return text;
}

}  // namespace tally::control
