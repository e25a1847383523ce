// The post-mortem report of a job at this node: the latest operations of each shard, those that are
// outstanding, the latest announcement of each rank, and what is stuck or has failed. It outlives
// the job. docs/metrics.md defines every field.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "control/node/jobs/job_instance.h"
#include "dataplane/engine/shard.h"

namespace tally::control {

struct ShardPostMortem {
  std::vector<protocol::TraceRecord> latest;
  std::uint32_t operations = 0;                    // that have not ended
  std::vector<protocol::Outstanding> outstanding;  // the oldest of them
  std::vector<protocol::RankState> ranks;
  protocol::Health health;
};

struct PostMortem {
  std::string name;
  std::uint32_t epoch = 0;
  std::vector<std::string> nodes;  // names, by number from 1
  Nanos taken = 0;                 // time of the report
  std::vector<ShardPostMortem> shards;
};

// Returns the report without what the shards know; each shard adds its entry of `shards`.
PostMortem begin_post_mortem(const JobInstance& instance, std::uint32_t shards, Nanos now);
// Runs in the shard's thread. Precondition: the shard knows the job.
ShardPostMortem post_mortem_of(const engine::Shard& shard, protocol::JobId job_id, Nanos now);

nlohmann::json post_mortem_json(const PostMortem& report);

}  // namespace tally::control
