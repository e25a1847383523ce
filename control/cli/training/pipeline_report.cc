#include "control/cli/training/pipeline_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "control/cli/common/tables.h"
#include "control/cli/training/section_plans.h"
#include "control/plan/pipeline/nic_load.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::array kStageColumns = {
    Column{"stage", "stage"},
    Column{"range", "blocks", Format::kText},
    Column{"gpu_names", "GPUs", Format::kText},
    Column{"recomputed", "recomputed", Format::kText},
    Column{"in_flight", "in flight"},
    Column{"compute_ms", "compute ms", Format::kText},
    Column{"sync_ms", "sync ms", Format::kText},
    Column{"transfer_ms", "transfer ms", Format::kText},
    Column{"memory", "memory", Format::kBytes},
    Column{"domain", "domain", Format::kText},
};

std::string milliseconds(double seconds) {
  return fmt::format("{:.4g}", seconds * 1e3);
}

json times_report(const plan::pipeline::Partition& partition) {
  return {{"bottleneck", partition.bottleneck}, {"iteration", partition.iteration}};
}

json stage_report(const plan::ProfileFile& profile, const plan::pipeline::Cluster& cluster,
                  const plan::pipeline::Stage& stage, std::size_t index,
                  const std::string& job_prefix) {
  json gpus = json::array();
  for (const std::size_t gpu : stage.gpus) {
    gpus.push_back({{"rank", gpu}, {"name", cluster.gpus[gpu].name}});
  }
  return {{"stage", index},
          {"blocks", {stage.first_block, stage.end_block}},
          {"first_block", profile.profile.blocks[stage.first_block].name},
          {"last_block", profile.profile.blocks[stage.end_block - 1].name},
          {"gpus", gpus},
          {"recompute", stage.recompute},
          {"in_flight", stage.in_flight},
          {"compute", stage.compute},
          {"sync", stage.sync},
          {"time", stage.time},
          {"transfer", stage.transfer},
          {"memory", stage.memory},
          {"domain", stage_job(job_prefix, index)}};
}

// The NIC that is busy for longest; null when there is one server.
json busiest_nic(const plan::ProfileFile& profile, const plan::pipeline::Cluster& cluster,
                 const plan::pipeline::Options& options,
                 const plan::pipeline::Partition& partition) {
  const auto loads = plan::pipeline::nic_loads(profile.profile, cluster, options, partition);
  if (loads.empty()) return {};
  const auto busiest =
      std::max_element(loads.begin(), loads.end(),
                       [](const auto& a, const auto& b) { return a.seconds() < b.seconds(); });
  const auto gpu = std::find_if(cluster.gpus.begin(), cluster.gpus.end(),
                                [&](const auto& one) { return one.server == busiest->server; });
  return {{"server", gpu->name.substr(0, gpu->name.rfind('/'))},
          {"out", busiest->out},
          {"in", busiest->in},
          {"seconds", busiest->seconds()}};
}

// "4-6, 8": ranges of blocks.
std::string ranges_text(const json& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto first = numbers[i].get<std::size_t>();
    std::size_t last = first;
    while (i + 1 < numbers.size() && numbers[i + 1].get<std::size_t>() == last + 1) {
      ++last;
      ++i;
    }
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text.empty() ? "none" : text;
}

json stage_row(json stage) {
  const auto first = stage["blocks"][0].get<std::size_t>();
  const auto last = stage["blocks"][1].get<std::size_t>() - 1;
  stage["range"] = first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  std::string names;
  for (const json& gpu : stage["gpus"]) {
    names += fmt::format("{}{}", names.empty() ? "" : " ", gpu["name"].get<std::string>());
  }
  stage["gpu_names"] = names;
  stage["recomputed"] = ranges_text(stage["recompute"]);
  stage["compute_ms"] = milliseconds(stage["compute"]);
  stage["sync_ms"] = milliseconds(stage["sync"]);
  stage["transfer_ms"] = milliseconds(stage["transfer"]);
  return stage;
}

}  // namespace

json pipeline_report(const plan::ProfileFile& profile, const plan::pipeline::Cluster& cluster,
                     const plan::pipeline::Options& options,
                     const plan::pipeline::PipelinePlan& plan, const std::string& job_prefix) {
  const bool is_steady = options.objective == plan::pipeline::Objective::kBottleneck;
  json report = times_report(plan.partition);
  report["model"] = profile.model;
  report["objective"] = is_steady ? "bottleneck" : "iteration";
  report["microbatches"] = options.microbatches;
  report["samples_per_second"] = profile.microbatch / plan.partition.bottleneck;
  if (!is_steady) {
    report["samples_per_second"] =
        profile.microbatch * options.microbatches / plan.partition.iteration;
  }
  report["order"] = plan.partition.order;
  report["orders_tried"] = plan.orders_tried;
  report["every_order"] = plan.is_exhaustive;
  report["data_parallel"] = plan.data_parallel ? times_report(*plan.data_parallel) : json();
  report["busiest_nic"] = busiest_nic(profile, cluster, options, plan.partition);
  report["stages"] = json::array();
  for (const plan::pipeline::Stage& stage : plan.partition.stages) {
    report["stages"].push_back(
        stage_report(profile, cluster, stage, report["stages"].size(), job_prefix));
  }
  return report;
}

std::string render_pipeline_report(const json& report) {
  json rows = json::array();
  for (const json& stage : report["stages"]) rows.push_back(stage_row(stage));
  const std::string objective = report["objective"];
  std::string text = fmt::format(
      "model {}: {} stage{}, {} ms for each microbatch, {} ms for an iteration of {}, {:.4g} "
      "samples/s\n",
      format_value(report["model"], Format::kText), rows.size(), rows.size() == 1 ? "" : "s",
      milliseconds(report["bottleneck"]), milliseconds(report["iteration"]),
      report["microbatches"].dump(), report["samples_per_second"].get<double>());
  text += render_table(rows, kStageColumns);
  if (report["data_parallel"].is_null()) {
    text += "one stage of all GPUs does not fit their memory\n";
  } else {
    const double alone = report["data_parallel"][objective];
    text += fmt::format("one stage of all GPUs takes {:.2f} times as long\n",
                        alone / report[objective].get<double>());
  }
  if (!report["busiest_nic"].is_null()) {
    const double seconds = report["busiest_nic"]["seconds"];
    text += fmt::format("the NIC of {} is busy for {} ms of each microbatch{}\n",
                        format_value(report["busiest_nic"]["server"], Format::kText),
                        milliseconds(seconds),
                        seconds > report["bottleneck"].get<double>()
                            ? ": it is the bottleneck, because transfers and sums share it"
                            : "");
  }
  return text + fmt::format("orders of the servers tried: {}{}\n", report["orders_tried"].dump(),
                            report["every_order"].get<bool>() ? " (all)" : "");
}

}  // namespace tally::control
