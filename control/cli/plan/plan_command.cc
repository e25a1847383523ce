#include "control/cli/plan/plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/element.h"
#include "base/text/sizes.h"
#include "base/text/speed.h"
#include "control/cli/common/flags.h"
#include "control/cli/plan/host_command.h"
#include "control/cli/plan/machine_options.h"
#include "control/cli/plan/packed_plan.h"
#include "control/cli/plan/plan_files.h"
#include "control/cli/plan/plan_report.h"
#include "control/cli/plan/workload.h"
#include "control/config/config_keys.h"
#include "control/plan/json/machines_json.h"
#include "control/plan/json/plan_json.h"
#include "control/plan/json/served.h"
#include "control/plan/model/load.h"
#include "control/plan/model/tree.h"
#include "control/plan/stars/star_planner.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr int kUsage = 2;
constexpr std::size_t kRows = 20;  // of a table, without --all
// Below this size, whole tensors distributed by their sizes load the nodes more evenly than tensors
// that are cut (docs/planning.md has the figures).
constexpr std::uint64_t kModelSplit = 1 << 20;
constexpr std::uint64_t kMostSplit = std::uint64_t{1} << 40;

std::string dump(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

PlanAnswer refuse(const std::string& message) {
  return {kUsage, "", fmt::format("tallyctl: {}\n", message)};
}

// Compares the plan with the exact optimum and with the weights of equal machines.
json comparison(const plan::Plan& plan, const std::vector<plan::Vertex>& machines) {
  const plan::StarShares best = plan::star_shares(machines);
  const plan::StarShares uniform = plan::uniform_shares(machines);
  std::vector<plan::Tree> trees;
  const auto& workers = plan.domains[0].workers;
  for (plan::VertexId root = 0; root < machines.size(); ++root) {
    trees.push_back({0, plan::star_parents(machines.size(), workers, root), {}});
  }
  plan::Routes routes(plan.network);
  return {{"workers", workers.size()},
          {"helpers", machines.size() - workers.size()},
          {"t_star", best.tau},
          {"lower_bound", best.lower_bound},
          {"tau", plan.domains[0].certificate->tau},
          {"uniform_tau", plan::evaluate(routes, trees, uniform.shares).tau}};
}

std::string render_comparison(const json& compared) {
  const double t_star = compared["t_star"], tau = compared["tau"];
  const double bound = compared["lower_bound"], uniform = compared["uniform_tau"];
  std::string text = fmt::format("workers: {}, helpers: {}\n", compared["workers"].dump(),
                                 compared["helpers"].dump());
  if (t_star <= 0) return text + "t* 0: one worker, nothing travels\n";
  text += fmt::format("t* {:.4g} ns per byte ({}); with weights in 1/65536 {:.3f}% more\n",
                      t_star * 1e9, speed_text(1 / t_star), 100 * (tau / t_star - 1));
  text += fmt::format("lower bound {:.4g} ns per byte: {}\n", bound * 1e9,
                      t_star <= bound * (1 + 1e-9) ? "no plan is faster"
                                                   : fmt::format("at most {:.2f}% from the best",
                                                                 100 * (t_star / bound - 1)));
  return text + fmt::format("uniform weights {:.4g} ns per byte: {:.2f} times t*\n", uniform * 1e9,
                            uniform / t_star);
}

// The tensors of the plan's model, with the tags that tally-perf gives them.
Result<std::vector<plan::Tensor>> model_tensors(const PlanArguments& arguments) {
  if (arguments.model.empty()) return std::vector<plan::Tensor>{};
  const auto type = parse_element_type(arguments.type);
  if (!type) {
    return Error{Status::kInvalidArgument,
                 fmt::format("--type {}: must be a type like f32 or bf16", arguments.type)};
  }
  const auto workload = find_workload(arguments.model);
  if (!workload) {
    return Error{Status::kInvalidArgument,
                 fmt::format("--model {}: {}", arguments.model, workload.error().message)};
  }
  if (workload->tensors.size() > plan::kMaxTensors) {
    return Error{Status::kInvalidArgument,
                 fmt::format("--model {}: {} tensors; a plan has at most {}", arguments.model,
                             workload->tensors.size(), plan::kMaxTensors)};
  }
  std::vector<plan::Tensor> tensors;
  for (const ModelTensor& one : workload->tensors) {
    const std::uint64_t bytes = one.count * element_bytes(*type);
    if (bytes > plan::kMaxTensorBytes) {
      return Error{Status::kInvalidArgument,
                   fmt::format("--model {}: \"{}\" has {} bytes; a plan's tensors have at most {}",
                               arguments.model, one.name, bytes, plan::kMaxTensorBytes)};
    }
    tensors.push_back({static_cast<std::uint32_t>(tensors.size()), bytes});
  }
  return tensors;
}

Result<plan::StarOptions> star_options(const PlanArguments& arguments) {
  const auto chunk = parse_size(arguments.chunk);
  if (!chunk || *chunk == 0) {
    return Error{Status::kInvalidArgument,
                 fmt::format("--chunk {}: must be a size like 256KiB", arguments.chunk)};
  }
  auto tensors = model_tensors(arguments);
  if (!tensors) return tensors.error();
  plan::StarOptions options{.chunk = *chunk, .epoch = arguments.epoch};
  if (!tensors->empty()) options.split_bytes = kModelSplit;
  if (!arguments.split.empty()) {
    const auto split = parse_size(arguments.split);
    if (!split || *split < 2 || *split > kMostSplit) {
      return Error{
          Status::kInvalidArgument,
          fmt::format("--split {}: must be a size like 1MiB, up to 1024GiB", arguments.split)};
    }
    options.split_bytes = *split;
  }
  options.tensors = std::move(tensors).value();
  return options;
}

// Adds why nodes refuse the plan; null if they take it. The simulator takes such a plan, too.
json with_refusal(json described, const plan::Plan& plan) {
  const auto served = plan::check_served(plan);
  described["refused"] = served ? json() : json(served.error().message);
  return described;
}

std::string render_refusal(const json& described) {
  if (described["refused"].is_null()) return {};
  return fmt::format("plan set refuses this plan: {}\n", described["refused"].get<std::string>());
}

// report: of how good the plan is.
PlanAnswer write_made(const PlanArguments& arguments, const plan::Plan& plan,
                      const std::string& report) {
  PlanAnswer answer;
  answer.err = report;
  const std::string text = plan::write_plan(plan);
  if (arguments.out.empty()) {
    answer.out = text;
    return answer;
  }
  if (const auto written = write_out(arguments.out, text); !written) {
    return {kFailed, "", fmt::format("tallyctl: {}\n", written.error().message)};
  }
  return answer;
}

PlanAnswer answer_make_packed(const PlanArguments& arguments, bool as_json) {
  const auto options = star_options(arguments);  // for the chunk
  if (!options) return refuse(options.error().message);
  if (arguments.objective == "rs-ag" && arguments.max_trees < plan::kServedTrees) {
    return refuse(
        "--max-trees: not with --objective rs-ag, where each worker is the root of trees; leave it "
        "out");
  }
  const auto plan =
      plan_for_network(arguments.network, {options->chunk, options->epoch, arguments.hop_us * 1e-6,
                                           arguments.one_class, arguments.objective == "rs-ag",
                                           arguments.any_way, arguments.max_trees});
  if (!plan) return refuse(plan.error().message);
  const json described = with_refusal(describe_packed(*plan), *plan);
  return write_made(
      arguments, *plan,
      as_json ? dump(described) : render_packed(described) + render_refusal(described));
}

PlanAnswer answer_make(const PlanArguments& arguments, bool as_json) {
  const std::string model = is_workload_path(arguments.model) ? arguments.model : "";
  const auto separate = check_output(
      "--out", arguments.out,
      {{"--network", arguments.network}, {"--machines", arguments.machines}, {"--model", model}});
  if (!separate) return refuse(separate.error().message);
  if (!arguments.network.empty()) return answer_make_packed(arguments, as_json);
  const auto machines = parse_machines(arguments.machines, arguments.workers, arguments.helpers);
  if (!machines) return refuse(machines.error().message);
  const bool has_worker = std::any_of(machines->begin(), machines->end(), [](const auto& machine) {
    return machine.role == plan::Role::kWorker;
  });
  if (!has_worker) {
    return refuse(
        arguments.machines.empty()
            ? "plan make: no --worker NAME=SPEED; give at least one"
            : "plan make: no machine of the file has the role \"worker\" (cluster.role of "
              "its node), and there is no --worker NAME=SPEED; give at least one");
  }
  const auto options = star_options(arguments);
  if (!options) return refuse(options.error().message);
  const auto plan = plan::plan_star(*machines, *options);
  if (!plan) return refuse("plan make: " + plan.error().message);
  const json compared = with_refusal(comparison(*plan, *machines), *plan);
  return write_made(
      arguments, *plan,
      as_json ? dump(compared) : render_comparison(compared) + render_refusal(compared));
}

PlanAnswer answer_check(const PlanArguments& arguments, bool as_json) {
  const auto bytes = parse_size(arguments.bytes);
  if (!bytes) {
    return refuse(fmt::format("--bytes {}: must be a size like 256MiB", arguments.bytes));
  }
  const auto plan = read_plan_file(arguments.file, arguments.max_height);
  if (!plan) return refuse(plan.error().message);
  if (auto served = plan::check_served(*plan); !served) {
    return refuse(fmt::format("{}: {}", arguments.file, served.error().message));
  }
  const json report = plan_report(*plan, {.bytes = *bytes, .hop_seconds = arguments.hop_us * 1e-6});
  const std::size_t rows = arguments.all ? std::numeric_limits<std::size_t>::max() : kRows;
  return {0, as_json ? dump(report) : render_plan_report(report, rows), ""};
}

void add_check(CLI::App& plan, PlanArguments& arguments) {
  auto* check = plan.add_subcommand("check",
                                    "whether a plan is possible and a cluster serves it, its "
                                    "trees, the loads of links, and what binds");
  check->add_option("FILE", arguments.file, "the plan")->required();
  check->add_option("--bytes", arguments.bytes, "predict the time of an operation of this size")
      ->type_name("SIZE")
      ->capture_default_str();
  check->add_option("--hop-us", arguments.hop_us, "latency of one hop, microseconds")
      ->check(number_in(0.0, 1e6))
      ->capture_default_str();
  check->add_option("--max-height", arguments.max_height, "most levels of a tree")
      ->check(CLI::Range(1u, plan::kServedHeight))
      ->capture_default_str();
  check->add_flag("--all", arguments.all, fmt::format("every row of tables longer than {}", kRows));
  check->footer(
      "Exit status: 0 nodes can serve it, 2 it is refused (stderr says why) or wrong usage.");
}

void add_make(CLI::App& plan, PlanArguments& arguments) {
  auto* make = plan.add_subcommand(
      "make",
      "a plan: stars for machines joined by their NICs alone (full bisection), or with --network "
      "packed trees");
  auto* network = make->add_option("--network", arguments.network,
                                   "plan for the machines, racks, switches and links of this file "
                                   "(docs/planning.md; also what tallyctl probe --racks --out "
                                   "writes), and for no others");
  network->type_name("FILE");
  make->add_option("--worker", arguments.workers,
                   "a machine with a gradient, and its NIC: a=100Gbit, a=12.5GB,sum=40GB (what it "
                   "can sum per second); may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME=SPEED");
  make->add_option("--helper", arguments.helpers, "a machine without one; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME=SPEED");
  make->add_option("--machines", arguments.machines,
                   "machines as tallyctl probe --out wrote them, besides those that are named")
      ->type_name("FILE");
  make->add_option("--chunk", arguments.chunk, "what travels at a time")
      ->type_name("SIZE")
      ->capture_default_str();
  make->add_option("--epoch", arguments.epoch, "the plan's epoch")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 53))
      ->capture_default_str();
  auto* model = make->add_option(
      "--model", arguments.model,
      "the plan knows its tensors, so that those that travel whole leave the nodes "
      "even: resnet50, vgg16, bert-large, gpt2, gpt2-xl, or a file like those in "
      "perf/workloads/. Tags are their numbers there, from 0");
  model->type_name("NAME");
  make->add_option("--type", arguments.type, "of the model's elements")
      ->type_name("TYPE")
      ->needs(model)
      ->capture_default_str();
  make->add_option("--split", arguments.split,
                   "operations below this size travel whole, others are divided; left out: 1MiB "
                   "with --model, else as the coordinator has it (shards.split_bytes)")
      ->type_name("SIZE");
  make->add_option("--hop-us", arguments.hop_us,
                   "with --network: latency of one hop, microseconds, by which size classes are "
                   "chosen")
      ->check(number_in(0.0, 1e6))
      ->needs(network)
      ->capture_default_str();
  make->add_flag("--one-class", arguments.one_class,
                 "with --network: the same trees for operations of all sizes")
      ->needs(network);
  make->add_option("--objective", arguments.objective,
                   "with --network: the collectives of the jobs; rs-ag: reduce-scatters and "
                   "all-gathers, as in training with sharded parameters")
      ->check(CLI::IsMember({"allreduce", "rs-ag"}))
      ->needs(network)
      ->capture_default_str();
  make->add_flag("--any-way", arguments.any_way,
                 "with --network: results may go another way than the sums came, which is faster "
                 "where the directions of links differ; always so with --objective rs-ag")
      ->needs(network);
  make->add_option("--max-trees", arguments.max_trees,
                   "with --network: the most trees of a size class; with fewer, operations of some "
                   "hundred tiles may be faster (docs/simulator.md)")
      ->check(CLI::Range(std::size_t{1}, plan::kServedTrees))
      ->needs(network)
      ->capture_default_str();
  for (const char* other : {"--worker", "--helper", "--machines", "--model", "--split"}) {
    network->excludes(make->get_option(other));
  }
  make->add_option("--out", arguments.out, "the file to write; left out: stdout")
      ->type_name("FILE");
  make->footer(
      "On stderr: the time per byte, its lower bound, and how uniform weights compare or what\n"
      "limits, and why plan set refuses it, if it does (with --json as JSON). Exit status: 0 made, "
      "1 it could not be written, 2 wrong "
      "usage.");
  make->parse_complete_callback([&arguments] { arguments.verb = PlanVerb::kMake; });
}

void add_set(CLI::App& plan, PlanArguments& arguments) {
  auto* set =
      plan.add_subcommand("set", "gives a plan to the coordinator, for jobs that form from now on");
  auto* file = set->add_option("FILE", arguments.file, "the plan");
  set->add_option("--job", arguments.job, "for this job alone; left out: for all without their own")
      ->type_name("NAME");
  set->add_option("--domain", arguments.domain,
                  "which domain of the file; left out: the only one, or each for the job of its "
                  "name")
      ->type_name("NAME");
  set->add_flag("--closed-form", arguments.closed_form,
                "takes the plan back: the coordinator's own again")
      ->excludes(file);
  set->add_option(
         "--machines", arguments.machines,
         "with --closed-form: for the speeds and racks that tallyctl probe --out wrote, not "
         "those that nodes declare")
      ->type_name("FILE")
      ->needs("--closed-form");
  set->add_flag("--now", arguments.now, "jobs that run go over to it, too");
  set->footer(
      "The plan's machines are members by their names (addr = cluster.name); those that sum must\n"
      "be there. A job that runs keeps the plan that it has, but with --now. The coordinator "
      "forgets\n"
      "plans when it ends. Exit status: 0 it is in force, 1 no answer, 2 it is refused, or wrong "
      "usage.");
  set->parse_complete_callback([&arguments] { arguments.verb = PlanVerb::kSet; });
}

void add_show(CLI::App& plan, PlanArguments& arguments) {
  auto* show =
      plan.add_subcommand("show", "the plan in force at the coordinator, and what it is worth");
  show->add_option("--job", arguments.job,
                   "that this job runs by, or would form by; left out: any other that forms")
      ->type_name("NAME");
  show->add_flag("--in-force", arguments.in_force,
                 "of a job that runs, the plan that it would form by now");
  show->add_option("--out", arguments.out, "writes it to this file, which plan check and set take")
      ->type_name("FILE");
  show->parse_complete_callback([&arguments] { arguments.verb = PlanVerb::kShow; });
}

}  // namespace

CLI::App* add_plan(CLI::App& app, PlanArguments& arguments) {
  auto* plan = app.add_subcommand(
      "plan", "makes plans and checks them, without a node; sets and shows those in force");
  plan->require_subcommand(1);
  add_check(*plan, arguments);
  add_make(*plan, arguments);
  add_set(*plan, arguments);
  add_show(*plan, arguments);
  add_explain_host(*plan, arguments);
  plan->footer("docs/planning.md says what a plan is, and how it is made.");
  return plan;
}

PlanAnswer answer_plan(const PlanArguments& arguments, bool as_json) {
  if (arguments.verb == PlanVerb::kExplainHost) return answer_explain_host(arguments, as_json);
  return arguments.verb == PlanVerb::kMake ? answer_make(arguments, as_json)
                                           : answer_check(arguments, as_json);
}

}  // namespace tally::control
