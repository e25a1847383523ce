#include "control/node/introspection.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/coordinator/records/vertex_json.h"
#include "control/node/shards/roce_json.h"
#include "net/rpc/params.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxName = 128;
// Trace records of a job at a shard. A reply holds all of them, with some 400 bytes each. That is
// less than the 4 MiB of a reply that may wait.
constexpr std::size_t kTraceRecords = 4096;

// The state of a job at one shard.
struct JobView {
  std::uint32_t operations = 0;
  std::vector<protocol::Waiting> waiting;
  protocol::JobTotals totals;
  std::vector<protocol::RankCounters> ranks;  // only on request, because there may be many
  double cycles_per_ns = 0;                   // of the shard's clock
  std::uint32_t slow_shards = 0;
};

JobView view_of(const protocol::Aggregator& protocol, protocol::JobId job_id) {
  return {.operations = protocol.inspect().operations(job_id),
          .waiting = protocol.inspect().waiting(job_id),
          .totals = protocol.inspect().totals(job_id),
          .ranks = {},
          .slow_shards = protocol.inspect().is_slow(job_id) ? 1U : 0U};
}

// Each operation waits at its home shard, so the sum counts nothing twice.
void merge(JobView& all, const JobView& one) {
  all.operations += one.operations;
  all.slow_shards += one.slow_shards;
  all.waiting.insert(all.waiting.end(), one.waiting.begin(), one.waiting.end());
  all.totals += one.totals;
  all.ranks.resize(std::max(all.ranks.size(), one.ranks.size()));
  for (std::size_t rank = 0; rank < one.ranks.size(); ++rank) all.ranks[rank] += one.ranks[rank];
}

json times_json(const protocol::JobTotals& totals) {
  return {{"parts", totals.parts},        {"bytes", totals.bytes},
          {"waiting_ns", totals.waiting}, {"queueing_ns", totals.queueing},
          {"pulling_ns", totals.pulling}, {"summing_ns", totals.summing},
          {"pushing_ns", totals.pushing}};
}

json connections_json(const rpc::ConnectionCounts& counts) {
  return {{"identified", counts.identified},
          {"anonymous", counts.anonymous},
          {"operators", counts.operators},
          {"limit", counts.limit},
          {"closed_idle", counts.closed_idle},
          {"closed_for_newer", counts.closed_for_newer},
          {"closed_for_memory", counts.closed_for_memory},
          {"closed_for_descriptors", counts.closed_for_descriptors},
          {"refused", counts.refused},
          {"refused_keys", counts.refused_keys}};
}

json timeouts_json(const FaultTimeouts& timeouts) {
  json list = json::object();
  for (const auto& [name, ms] : timeouts.shown()) list[std::string(name)] = ms;
  return list;
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

json waiting_json(const std::vector<protocol::Waiting>& all) {
  const Nanos now = monotonic_now();
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
          {"last_rank", record.last_rank}, {"status", status_name(record.status)},
          {"notice_ns", record.notice},    {"ready_ns", record.ready},
          {"started_ns", record.started},  {"pulled_ns", record.pulled},
          {"summed_ns", record.summed},    {"completed_ns", record.completed},
          {"pulling_ns", record.pulling},  {"summing_ns", record.summing},
          {"pushing_ns", record.pushing}};
}

Error no_such_job(const std::string& job) {
  return {Status::kInvalidArgument,
          fmt::format("no job \"{}\" runs here: tallyctl jobs lists those that do", job)};
}

// An operator can take a trace over. With --insecure the node cannot distinguish strangers over TCP
// from operators, so a caller over TCP without proof takes no trace over from an operator.
bool takes_over(const Caller& caller, const Caller& holder) {
  const bool is_proven = !caller.user.empty() || caller.proof.has_value();
  return caller.is_operator && (is_proven || !holder.is_operator);
}

}  // namespace

Introspection::Introspection(NodeFacts facts, ShardSet& shards, const Admission& admission,
                             std::function<Caller(rpc::ConnectionId)> caller_of, Audit audit)
    : facts_(std::move(facts)),
      shards_(shards),
      admission_(admission),
      caller_of_(std::move(caller_of)),
      audit_(std::move(audit)),
      started_(monotonic_now()) {}

void Introspection::handle(rpc::ConnectionId connection, const rpc::Request& request,
                           rpc::Reply reply) {
  const std::string& method = request.method;
  if (method == "node.status") return status(std::move(reply));
  if (method == "node.stats") return stats(std::move(reply));
  if (method == "node.jobs") return jobs(connection, std::move(reply));
  if (method == "node.metrics") return metrics(connection, request, std::move(reply));
  if (method == "node.trace") return trace(connection, request, std::move(reply));
  if (method == "node.trace_take") return take_trace(connection, request, std::move(reply));
  reply.unknown_method(method);
}

Result<const JobInstance*> Introspection::find(const std::string& job) const {
  const JobInstance* found = nullptr;
  for (const auto& instance : admission_.instances()) {
    if (instance->name != job || instance->joined == 0) continue;
    if (instance->registration != JobInstance::Registration::kDone) continue;
    if (found == nullptr || instance->epoch > found->epoch) found = instance.get();
  }
  if (found != nullptr) return found;
  return no_such_job(job);
}

// Answers as for a job that does not exist, so that callers learn no names of jobs.
Result<const JobInstance*> Introspection::find_for(rpc::ConnectionId connection,
                                                   std::string_view method,
                                                   const std::string& job) const {
  auto found = find(job);
  if (!found || may_see(caller_of_(connection), job, (*found)->lock)) return found;
  audit_(connection, method,
         {Status::kRefused, fmt::format("job \"{}\" is not one of this caller's", job)});
  return no_such_job(job);
}

void Introspection::refuse(rpc::ConnectionId connection, std::string_view method, rpc::Reply& reply,
                           const std::string& why) const {
  const Error error{Status::kRefused, why};
  audit_(connection, method, error);
  reply.error(error);
}

void Introspection::status(rpc::Reply reply) const {
  std::uint64_t sessions = 0;
  for (const auto& instance : admission_.instances()) sessions += instance->joined;
  json answer = {{"version", TALLY_VERSION},
                 {"pid", ::getpid()},
                 {"uptime_s", static_cast<double>(monotonic_now() - started_) / kSecond},
                 {"address", facts_.address},
                 {"shards", shards_.size()},
                 {"rails", to_json(admission_.rails())},
                 {"isa", facts_.isa},
                 {"poll", facts_.poll},
                 {"hugepages", facts_.hugepages},
                 {"jobs", admission_.instances().size()},
                 {"sessions", sessions},
                 {"timeouts", timeouts_json(timeouts_)}};
  if (facts_.connections) answer["connections"] = connections_json(facts_.connections());
  reply.result(std::move(answer));
}

void Introspection::stats(rpc::Reply reply) const {
  json shards = json::array();
  json totals = json::object();
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    json shard = {{"index", i}};
    for (const auto& [name, counter] : engine::kShardCounterNames) {
      const std::uint64_t value = (shards_.counters(i).*counter).read();
      const std::string key(name);
      shard[key] = value;
      totals[key] = totals.value(key, std::uint64_t{0}) + value;
    }
    shards.push_back(std::move(shard));
  }
  json answer = {{"shards", std::move(shards)}, {"totals", std::move(totals)}};
  if (!shards_.has_roce()) return reply.result(std::move(answer));
  // Only a shard's own thread may read these counters.
  auto ports = std::make_shared<std::vector<json>>(shards_.size());
  auto then = std::make_shared<rpc::Reply>(std::move(reply));
  shards_.on_each([ports](std::uint32_t i, auto&,
                          Transports& transports) { (*ports)[i] = roce_json(*transports.roce); },
                  [ports, then, answer = std::move(answer)]() mutable {
                    for (std::size_t i = 0; i < ports->size(); ++i) {
                      answer["shards"][i]["roce"] = std::move((*ports)[i]);
                    }
                    then->result(std::move(answer));
                  });
}

void Introspection::jobs(rpc::ConnectionId connection, rpc::Reply reply) const {
  const Caller caller = caller_of_(connection);
  std::vector<protocol::JobId> job_ids;
  auto list = std::make_shared<json>(json::array());
  for (const auto& instance : admission_.instances()) {
    // Skips an instance that no member has joined, unless it is placed and has not ended. The
    // shards may no longer know an instance that ends.
    if (instance->joined == 0 && (!instance->placed || instance->over)) continue;
    if (instance->registration != JobInstance::Registration::kDone) continue;
    if (!may_see(caller, instance->name, instance->lock)) continue;
    job_ids.push_back(instance->job_id);
    list->push_back({{"name", instance->name},
                     {"epoch", instance->epoch},
                     {"ranks", instance->ranks()},
                     {"joined", instance->joined_ranks()},
                     {"weight", instance->weight},
                     {"owner", instance->owner},
                     {"trees", instance->trees()},
                     {"trees_of_plan", instance->plan.trees},
                     {"plan_epoch", instance->plan_epoch},
                     {"weights", weights_of_large(instance->plan)},
                     {"split_bytes", divided_from(instance->plan)},
                     {"nodes", instance->nodes},
                     {"height", height_of(*instance)},
                     {"regions", instance->regions},
                     {"region_bytes", instance->region_bytes}});
    if (!instance->stands_in_for.empty()) {
      list->back()["stands_in_for"] = instance->stands_in_for;
    }
    json vertices = vertices_json(*instance);
    if (!vertices.is_null()) list->back()["vertices"] = std::move(vertices);
  }
  // By shard, then by job. Every shard writes a row of its own.
  auto views = std::make_shared<std::vector<std::vector<JobView>>>(
      shards_.size(), std::vector<JobView>(job_ids.size()));
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  shards_.on_each(
      [views, job_ids](std::uint32_t i, engine::Shard& shard, auto&) {
        for (std::size_t job = 0; job < job_ids.size(); ++job) {
          (*views)[i][job] = view_of(shard.protocol(), job_ids[job]);
        }
      },
      [views, list, answer] {
        for (std::size_t job = 0; job < list->size(); ++job) {
          JobView all;
          for (const auto& by_job : *views) merge(all, by_job[job]);
          (*list)[job]["parts_outstanding"] = all.operations;
          (*list)[job]["slow_shards"] = all.slow_shards;
          (*list)[job]["times"] = times_json(all.totals);
          (*list)[job]["waiting"] = waiting_json(all.waiting);
        }
        answer->result(std::move(*list));
      });
}

void Introspection::metrics(rpc::ConnectionId connection, const rpc::Request& request,
                            rpc::Reply reply) const {
  rpc::Params params(request.params);
  const auto name = params.text("job", kMaxName);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const auto instance = find_for(connection, request.method, name);
  if (!instance) return reply.error(instance.error());
  auto views = std::make_shared<std::vector<JobView>>(shards_.size());
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  json result = {{"name", name}, {"epoch", (*instance)->epoch}};
  shards_.on_each(
      [views, job_id = (*instance)->job_id](std::uint32_t i, engine::Shard& shard, auto&) {
        (*views)[i] = view_of(shard.protocol(), job_id);
        (*views)[i].ranks = shard.protocol().inspect().rank_counters(job_id);
        (*views)[i].cycles_per_ns = shard.clock().cycles_per_nano();
      },
      [views, answer, result = std::move(result)]() mutable {
        JobView all;
        for (const JobView& one : *views) merge(all, one);
        // One rate for all counters.
        result["cycles_per_ns"] = views->front().cycles_per_ns;
        result["times"] = times_json(all.totals);
        result["ranks"] = ranks_json(all);
        answer->result(std::move(result));
      });
}

void Introspection::set_trace(protocol::JobId job_id, std::size_t records,
                              std::function<void()> then) const {
  shards_.on_each(
      [job_id, records](auto, engine::Shard& shard, auto&) {
        shard.protocol().inspect().set_trace(job_id, records);
      },
      std::move(then));
}

void Introspection::trace(rpc::ConnectionId connection, const rpc::Request& request,
                          rpc::Reply reply) {
  rpc::Params params(request.params);
  const auto name = params.text("job", kMaxName);
  const bool on = params.flag_or("on", true);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const auto instance = find_for(connection, request.method, name);
  if (!instance) return reply.error(instance.error());
  const JobInstanceKey key{name, (*instance)->epoch};
  const auto owner = traces_.find(key);
  const bool is_held = owner != traces_.end() && owner->second != connection;
  if (is_held && !takes_over(caller_of_(connection), caller_of_(owner->second))) {
    return refuse(connection, request.method, reply,
                  fmt::format("job \"{}\" is being traced by another connection", name));
  }
  if (on) traces_[key] = connection;
  if (!on) traces_.erase(key);
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  set_trace((*instance)->job_id, on ? kTraceRecords : 0, [answer, on, shards = shards_.size()] {
    answer->result({{"records", on ? kTraceRecords : 0}, {"shards", shards}});
  });
}

void Introspection::take_trace(rpc::ConnectionId connection, const rpc::Request& request,
                               rpc::Reply reply) const {
  rpc::Params params(request.params);
  const auto name = params.text("job", kMaxName);
  const auto wanted = params.number("shard", 0, shards_.size() - 1);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const auto instance = find_for(connection, request.method, name);
  if (!instance) return reply.error(instance.error());
  const auto owner = traces_.find({name, (*instance)->epoch});
  if (owner == traces_.end() || owner->second != connection) {
    return refuse(
        connection, request.method, reply,
        fmt::format("this connection does not trace job \"{}\": it has to call node.trace first",
                    name));
  }
  auto taken = std::make_shared<protocol::TraceRing::Taken>();
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  shards_.on_each(
      [taken, wanted, job_id = (*instance)->job_id](std::uint32_t i, engine::Shard& shard, auto&) {
        if (i == wanted) *taken = shard.protocol().inspect().take_trace(job_id);
      },
      [taken, answer] {
        json records = json::array();
        for (const auto& record : taken->records) records.push_back(record_json(record));
        answer->result({{"dropped", taken->dropped}, {"records", std::move(records)}});
      });
}

void Introspection::closed(rpc::ConnectionId connection) {
  for (auto trace = traces_.begin(); trace != traces_.end();) {
    if (trace->second != connection) {
      ++trace;
      continue;
    }
    const auto instance = find(trace->first.first);
    if (instance && (*instance)->epoch == trace->first.second) {
      set_trace((*instance)->job_id, 0, [] {});
    }
    trace = traces_.erase(trace);
  }
}

}  // namespace tally::control
