// What tallyctl prints of a node's answers. Pure: an answer and the time in, text out.
// docs/metrics.md defines every column.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"

namespace tally::control {

// What was seen last: with --watch, counters are shown per second and times as shares since then.
struct Sample {
  nlohmann::json rows;
  Nanos time = 0;
};

std::string render_status(const nlohmann::json& status);
std::string render_stats(const nlohmann::json& stats, Nanos now, Sample& last);
// Of node.jobs.
std::string render_jobs(const nlohmann::json& jobs, Nanos now, Sample& last);
// Of cluster.jobs.
std::string render_cluster_jobs(const nlohmann::json& jobs);
// Of cluster.nodes.
std::string render_nodes(const nlohmann::json& nodes);
// Of a list of answers to node.metrics.
std::string render_ranks(const nlohmann::json& metrics, Nanos now, Sample& last);

}  // namespace tally::control
