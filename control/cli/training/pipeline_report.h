// What a pipeline plan comes to, for people and as JSON. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "control/plan/json/pipeline_json.h"
#include "control/plan/pipeline/planner.h"

namespace tally::control {

// The report as JSON; docs/pipelines.md lists the keys. job_prefix: as in PlanFileOptions.
nlohmann::json pipeline_report(const plan::ProfileFile& profile,
                               const plan::pipeline::Cluster& cluster,
                               const plan::pipeline::Options& options,
                               const plan::pipeline::PipelinePlan& plan,
                               const std::string& job_prefix);

// The report of pipeline_report() as text and a table.
std::string render_pipeline_report(const nlohmann::json& report);

}  // namespace tally::control
