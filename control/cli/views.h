// What tallyctl prints of a node's answers. Pure: an answer and the time in, text out.
// docs/metrics.md defines every column.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"

namespace tally::control {

// The previous answer. With --watch, counters are shown per second since then, and times as shares.
struct Sample {
  nlohmann::json rows;
  Nanos time = 0;
};

std::string render_status(const nlohmann::json& status);
std::string render_stats(const nlohmann::json& stats, Nanos now, Sample& last);
// For node.jobs.
std::string render_jobs(const nlohmann::json& jobs, Nanos now, Sample& last);
// For cluster.jobs.
std::string render_cluster_jobs(const nlohmann::json& jobs);
// For cluster.nodes.
std::string render_nodes(const nlohmann::json& nodes);
// For a list of answers to node.metrics.
std::string render_ranks(const nlohmann::json& metrics, Nanos now, Sample& last);

}  // namespace tally::control
