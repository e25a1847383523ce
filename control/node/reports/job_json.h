// What a node reports of a job that runs here, as JSON. docs/metrics.md defines every figure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "control/node/jobs/job_instance.h"
#include "dataplane/engine/shard.h"

namespace tally::control {

// The state of a job at one shard.
struct JobView {
  std::uint32_t operations = 0;
  std::vector<protocol::Waiting> waiting;
  protocol::JobTotals totals;
  std::vector<protocol::RankCounters> ranks;  // only on request, because there may be many
  double cycles_per_ns = 0;                   // of the shard's clock
  std::uint32_t slow_shards = 0;
};

// Runs in the shard's thread.
JobView view_of(const engine::Shard& shard, protocol::JobId job_id);
// The views of all shards as one.
JobView merged(const std::vector<JobView>& by_shard);

nlohmann::json instance_json(const JobInstance& instance);
nlohmann::json times_json(const protocol::JobTotals& totals);
nlohmann::json waiting_json(const std::vector<protocol::Waiting>& all, Nanos now);
nlohmann::json ranks_json(const JobView& job);
nlohmann::json record_json(const protocol::TraceRecord& record);

}  // namespace tally::control
