#include "control/node/reports/job_json.h"

#include <algorithm>
#include <utility>

#include "control/coordinator/records/vertex_json.h"

namespace tally::control {
namespace {

using nlohmann::json;

// Each operation waits at its home shard, so the sum counts nothing twice.
void add(JobView& all, const JobView& one) {
  all.operations += one.operations;
  all.slow_shards += one.slow_shards;
  all.waiting.insert(all.waiting.end(), one.waiting.begin(), one.waiting.end());
  all.totals += one.totals;
  all.ranks.resize(std::max(all.ranks.size(), one.ranks.size()));
  for (std::size_t rank = 0; rank < one.ranks.size(); ++rank) all.ranks[rank] += one.ranks[rank];
}

// This node's vertex in each of its trees; null when all are stars.
json vertices_json(const JobInstance& instance) {
  if (all_stars(instance.vertices, instance.ranks())) return nullptr;
  json list = to_json(instance.vertices);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const protocol::Vertex& vertex = instance.vertices[i];
    list[i].erase("parent");
    list[i]["above"] = vertex.is_root() ? "" : instance.above[vertex.parent].name;
    json below = json::array();
    for (const protocol::ChildNode& child_node : vertex.child_nodes) {
      below.push_back(instance.below[child_node.number].name);
    }
    list[i]["child_nodes"] = std::move(below);
  }
  return list;
}

std::uint32_t height_of(const JobInstance& instance) {
  std::uint32_t height = 0;
  for (const protocol::Vertex& vertex : instance.vertices) {
    height = std::max(height, vertex.height);
  }
  return height;
}

// Weights by tree of the plan, for the class of the largest operations. Smaller operations may use
// other trees.
json weights_of_large(const protocol::Partition& plan) {
  std::vector<std::uint32_t> weights(plan.trees);
  const protocol::SizeClass& large = plan.classes.back();
  for (std::size_t i = 0; i < large.trees.size(); ++i) weights[large.trees[i]] = large.weights[i];
  return weights;
}

// The size in bytes from which operations are divided; kMaxBytes when no class is divided.
std::uint64_t divided_from(const protocol::Partition& plan) {
  std::uint64_t from = 0;
  for (const protocol::SizeClass& one : plan.classes) {
    if (!one.divided)
      from = one.max_bytes == protocol::kAnySize ? wire::kMaxBytes : one.max_bytes + 1;
  }
  return from;
}

}  // namespace

JobView view_of(const engine::Shard& shard, protocol::JobId job_id) {
  const protocol::JobInspector& inspect = shard.protocol().inspect();
  return {.operations = inspect.operations(job_id),
          .waiting = inspect.waiting(job_id),
          .totals = inspect.totals(job_id),
          .ranks = {},
          .cycles_per_ns = shard.clock().cycles_per_nano(),
          .slow_shards = inspect.is_slow(job_id) ? 1U : 0U};
}

JobView merged(const std::vector<JobView>& by_shard) {
  JobView all;
  for (const JobView& one : by_shard) add(all, one);
  all.cycles_per_ns = by_shard.front().cycles_per_ns;  // one rate for all counters
  return all;
}

json instance_json(const JobInstance& instance) {
  json job = {{"name", instance.name},
              {"epoch", instance.epoch},
              {"ranks", instance.ranks()},
              {"joined", instance.joined_ranks()},
              {"weight", instance.weight},
              {"owner", instance.owner},
              {"trees", instance.trees()},
              {"trees_of_plan", instance.plan.trees},
              {"plan_epoch", instance.plan_epoch},
              {"weights", weights_of_large(instance.plan)},
              {"split_bytes", divided_from(instance.plan)},
              {"nodes", instance.nodes},
              {"height", height_of(instance)},
              {"regions", instance.regions},
              {"region_bytes", instance.region_bytes}};
  if (!instance.stands_in_for.empty()) job["stands_in_for"] = instance.stands_in_for;
  json vertices = vertices_json(instance);
  if (!vertices.is_null()) job["vertices"] = std::move(vertices);
  return job;
}

json times_json(const protocol::JobTotals& totals) {
  return {{"parts", totals.parts},        {"bytes", totals.bytes},
          {"waiting_ns", totals.waiting}, {"queueing_ns", totals.queueing},
          {"pulling_ns", totals.pulling}, {"summing_ns", totals.summing},
          {"pushing_ns", totals.pushing}};
}

json waiting_json(const std::vector<protocol::Waiting>& all, Nanos now) {
  json list = json::array();
  for (const protocol::Waiting& entry : all) {
    list.push_back({{"tag", entry.tag},
                    {"round", entry.round},
                    {"missing", entry.missing},
                    {"missing_below", entry.missing_below},
                    {"seconds", static_cast<double>(now - entry.since) / kSecond}});
  }
  return list;
}

json ranks_json(const JobView& job) {
  std::vector<std::uint64_t> waited_for(job.ranks.size());
  for (const protocol::Waiting& entry : job.waiting) {
    for (const std::uint16_t rank : entry.missing) ++waited_for[rank];
  }
  json list = json::array();
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const protocol::RankCounters& counters = job.ranks[rank];
    list.push_back({{"rank", rank},
                    {"notices", counters.notices},
                    {"completions", counters.completions},
                    {"failures", counters.failures},
                    {"bytes_in", counters.bytes_in},
                    {"bytes_out", counters.bytes_out},
                    {"damaged", counters.damaged},
                    {"times_last", counters.times_last},
                    {"lateness_ns", counters.lateness},
                    {"waited_for", waited_for[rank]}});
  }
  return list;
}

json record_json(const protocol::TraceRecord& record) {
  return {{"tag", record.key.tag},         {"round", record.key.round},
          {"part", record.part},           {"kind", wire::name(record.kind)},
          {"type", name(record.type)},     {"count", record.count},
          {"last_rank", record.last_rank}, {"status", status_name(record.verdict.status)},
          {"notice_ns", record.notice},    {"ready_ns", record.ready},
          {"started_ns", record.started},  {"pulled_ns", record.pulled},
          {"summed_ns", record.summed},    {"completed_ns", record.completed},
          {"pulling_ns", record.pulling},  {"summing_ns", record.summing},
          {"pushing_ns", record.pushing}};
}

}  // namespace tally::control
