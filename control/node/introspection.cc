#include "control/node/introspection.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/coordinator/records/vertex_json.h"
#include "control/node/reports/job_json.h"
#include "control/node/reports/stuck.h"
#include "control/node/shards/roce_json.h"
#include "net/rpc/params.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxName = 128;
// Trace records of a job at a shard. A reply holds all of them, with some 400 bytes each. That is
// less than the 4 MiB of a reply that may wait.
constexpr std::size_t kTraceRecords = 4096;

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

Error no_such_job(const std::string& job) {
  return {Status::kInvalidArgument,
          fmt::format("no job \"{}\" runs here: tallyctl jobs lists those that do", job)};
}

// Whether the shards know the instance. An instance that has no members, and is not placed or is
// over, may have left them already.
bool is_present(const JobInstance& instance) {
  if (instance.joined == 0 && (!instance.placed || instance.over)) return false;
  return instance.registration == JobInstance::Registration::kDone;
}

// What node.jobs reports of a job, with an entry for each shard.
struct JobReport {
  protocol::JobId job_id = 0;
  json of_instance;
  std::vector<std::string> nodes;
  std::vector<JobView> views;
  std::vector<protocol::Health> health;
};

json report_json(JobReport report) {
  const JobView all = merged(report.views);
  const Nanos now = monotonic_now();
  report.of_instance["parts_outstanding"] = all.operations;
  report.of_instance["slow_shards"] = all.slow_shards;
  report.of_instance["times"] = times_json(all.totals);
  report.of_instance["waiting"] = waiting_json(all.waiting, now);
  report.of_instance["stuck"] = stuck_json(report.health, report.nodes, now);
  return std::move(report.of_instance);
}

// An operator can take a trace over. With --insecure the node cannot distinguish strangers over TCP
// from operators, so a caller over TCP without proof takes no trace over from an operator.
bool takes_over(const Caller& caller, const Caller& holder) {
  const bool is_proven = !caller.user.empty() || caller.proof.has_value();
  return caller.is_operator && (is_proven || !holder.is_operator);
}

}  // namespace

Introspection::Introspection(NodeFacts facts, ShardSet& shards, const Admission& admission,
                             EndedJobs& ended, std::function<Caller(rpc::ConnectionId)> caller_of,
                             Audit audit)
    : facts_(std::move(facts)),
      shards_(shards),
      admission_(admission),
      ended_(ended),
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
  if (method == "node.dump") return dump(connection, request, std::move(reply));
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
  audit_hidden(connection, method, job);
  return no_such_job(job);
}

void Introspection::audit_hidden(rpc::ConnectionId connection, std::string_view method,
                                 const std::string& job) const {
  audit_(connection, method,
         {Status::kRefused, fmt::format("job \"{}\" is not one of this caller's", job)});
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
  auto reports = std::make_shared<std::vector<JobReport>>();
  for (const auto& instance : admission_.instances()) {
    if (!is_present(*instance) || !may_see(caller, instance->name, instance->lock)) continue;
    reports->push_back({.job_id = instance->job_id,
                        .of_instance = instance_json(*instance),
                        .nodes = node_names(*instance),
                        .views = std::vector<JobView>(shards_.size()),
                        .health = std::vector<protocol::Health>(shards_.size())});
  }
  // Every shard writes entries of its own.
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  shards_.on_each(
      [reports](std::uint32_t i, engine::Shard& shard, auto&) {
        for (JobReport& report : *reports) {
          report.views[i] = view_of(shard, report.job_id);
          report.health[i] = shard.health(report.job_id, monotonic_now());
        }
      },
      [reports, answer] {
        json list = json::array();
        for (JobReport& report : *reports) list.push_back(report_json(std::move(report)));
        answer->result(std::move(list));
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
        (*views)[i] = view_of(shard, job_id);
        (*views)[i].ranks = shard.protocol().inspect().rank_counters(job_id);
      },
      [views, answer, result = std::move(result)]() mutable {
        const JobView all = merged(*views);
        result["cycles_per_ns"] = all.cycles_per_ns;
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

// The jobs of which the caller may take a post-mortem report.
json Introspection::dumpable(const Caller& caller) const {
  json jobs = json::array();
  for (const EndedJobs::Entry* entry : ended_.at(monotonic_now())) {
    if (!may_see(caller, entry->report.name, entry->lock)) continue;
    jobs.push_back({{"name", entry->report.name}, {"epoch", entry->report.epoch}, {"ended", true}});
  }
  for (const auto& instance : admission_.instances()) {
    if (!is_present(*instance) || !may_see(caller, instance->name, instance->lock)) continue;
    jobs.push_back({{"name", instance->name}, {"epoch", instance->epoch}, {"ended", false}});
  }
  return jobs;
}

void Introspection::dump_running(const JobInstance& instance, rpc::Reply reply) const {
  const Nanos now = monotonic_now();
  auto report = std::make_shared<PostMortem>(begin_post_mortem(instance, shards_.size(), now));
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  shards_.on_each(
      [report, now, job_id = instance.job_id](std::uint32_t i, engine::Shard& shard, auto&) {
        report->shards[i] = post_mortem_of(shard, job_id, now);
      },
      [report, answer] { answer->result(post_mortem_json(*report)); });
}

// A request without `job` gets the list of jobs. One without `epoch` gets the report on the
// instance that runs; when none runs, on the latest.
void Introspection::dump(rpc::ConnectionId connection, const rpc::Request& request,
                         rpc::Reply reply) const {
  const Caller caller = caller_of_(connection);
  if (!request.params.contains("job")) return reply.result({{"jobs", dumpable(caller)}});
  rpc::Params params(request.params);
  const auto name = params.text("job", kMaxName);
  const auto epoch = params.number_or("epoch", 0, UINT32_MAX, 0);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  bool is_hidden = false;
  const auto is_wanted = [&](const auto& job, const JobLock& lock) {
    if (job.name != name || (epoch != 0 && job.epoch != epoch)) return false;
    const bool is_seen = may_see(caller, name, lock);
    is_hidden = is_hidden || !is_seen;
    return is_seen;
  };
  for (const auto& instance : admission_.instances()) {
    if (!is_present(*instance) || !is_wanted(*instance, instance->lock)) continue;
    return dump_running(*instance, std::move(reply));
  }
  const auto ended = ended_.at(monotonic_now());
  const auto found = std::find_if(ended.rbegin(), ended.rend(), [&](const auto* entry) {
    return is_wanted(entry->report, entry->lock);
  });
  if (found != ended.rend()) return reply.result(post_mortem_json((*found)->report));
  if (is_hidden) audit_hidden(connection, request.method, name);
  reply.error(no_such_job(name));
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
