#include "control/introspection.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/coordinator/vertex_json.h"
#include "control/rpc/params.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxName = 128;
// Of a job at a shard. A reply holds them all: some 400 bytes each, below the 4 MiB that may wait.
constexpr std::size_t kTraceRecords = 4096;

// A job as one shard sees it.
struct JobView {
  std::uint32_t operations = 0;
  std::vector<protocol::Waiting> waiting;
  protocol::JobTotals totals;
  std::vector<protocol::RankCounters> ranks;  // where they were asked for: there may be many
  double cycles_per_ns = 0;                   // of the shard's clock
};

JobView view_of(const protocol::Aggregator& protocol, std::uint32_t slot) {
  return {.operations = protocol.operations(slot),
          .waiting = protocol.waiting(slot),
          .totals = protocol.totals(slot),
          .ranks = {}};
}

// Each operation waits at its home shard, so nothing is told twice.
void merge(JobView& all, const JobView& one) {
  all.operations += one.operations;
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

// This node's place in each of its trees; nothing where all are stars.
json vertices_json(const Forming& forming) {
  if (all_stars(forming.vertices, forming.ranks())) return nullptr;
  json list = to_json(forming.vertices);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const protocol::Vertex& vertex = forming.vertices[i];
    list[i].erase("parent");
    list[i]["above"] = vertex.is_root() ? "" : forming.above[vertex.parent].name;
    json below = json::array();
    for (const protocol::Branch& branch : vertex.branches) {
      below.push_back(forming.below[branch.number].name);
    }
    list[i]["branches"] = std::move(below);
  }
  return list;
}

std::uint32_t height_of(const Forming& forming) {
  std::uint32_t height = 0;
  for (const protocol::Vertex& vertex : forming.vertices) {
    height = std::max(height, vertex.height);
  }
  return height;
}

// By tree of the plan, of operations of any size; those of smaller ones may go by others.
json weights_of_large(const protocol::Plan& plan) {
  std::vector<std::uint32_t> weights(plan.trees);
  const protocol::SizeClass& large = plan.classes.back();
  for (std::size_t i = 0; i < large.trees.size(); ++i) weights[large.trees[i]] = large.weights[i];
  return weights;
}

// From so many bytes on operations are divided; none are: more than any has.
std::uint64_t divided_from(const protocol::Plan& plan) {
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

}  // namespace

Introspection::Introspection(NodeFacts facts, ShardSet& shards, const Admission& admission)
    : facts_(std::move(facts)), shards_(shards), admission_(admission), started_(monotonic_now()) {}

void Introspection::handle(rpc::ConnectionId connection, const rpc::Request& request,
                           rpc::Reply reply) {
  const std::string& method = request.method;
  if (method == "node.status") return status(std::move(reply));
  if (method == "node.stats") return stats(std::move(reply));
  if (method == "node.jobs") return jobs(std::move(reply));
  if (method == "node.metrics") return metrics(request, std::move(reply));
  if (method == "node.trace") return trace(connection, request, std::move(reply));
  if (method == "node.trace_take") return take_trace(connection, request, std::move(reply));
  reply.unknown_method(method);
}

Result<const Forming*> Introspection::find(const std::string& job) const {
  const Forming* found = nullptr;
  for (const auto& forming : admission_.formings()) {
    if (forming->name != job || forming->joined == 0) continue;
    if (found == nullptr || forming->epoch > found->epoch) found = forming.get();
  }
  if (found != nullptr) return found;
  return Error{Status::kInvalidArgument,
               fmt::format("no job \"{}\" runs here: tallyctl jobs lists those that do", job)};
}

void Introspection::status(rpc::Reply reply) const {
  std::uint64_t sessions = 0;
  for (const auto& forming : admission_.formings()) sessions += forming->joined;
  reply.result({{"version", TALLY_VERSION},
                {"pid", ::getpid()},
                {"uptime_s", static_cast<double>(monotonic_now() - started_) / kSecond},
                {"address", facts_.address},
                {"shards", shards_.size()},
                {"rails", to_json(admission_.rails())},
                {"isa", facts_.isa},
                {"poll", facts_.poll},
                {"hugepages", facts_.hugepages},
                {"jobs", admission_.formings().size()},
                {"sessions", sessions}});
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
  reply.result({{"shards", std::move(shards)}, {"totals", std::move(totals)}});
}

void Introspection::jobs(rpc::Reply reply) const {
  std::vector<std::uint32_t> slots;
  auto list = std::make_shared<json>(json::array());
  for (const auto& forming : admission_.formings()) {
    // Nobody has joined it yet; or it is on its way out, and the shards may not know it any more.
    if (forming->joined == 0 && (!forming->placed || forming->over)) continue;
    slots.push_back(forming->slot);
    list->push_back({{"name", forming->name},
                     {"epoch", forming->epoch},
                     {"ranks", forming->ranks()},
                     {"joined", forming->joined_ranks()},
                     {"weight", forming->weight},
                     {"trees", forming->trees()},
                     {"trees_of_plan", forming->plan.trees},
                     {"plan_epoch", forming->plan_epoch},
                     {"weights", weights_of_large(forming->plan)},
                     {"split_bytes", divided_from(forming->plan)},
                     {"nodes", forming->nodes},
                     {"height", height_of(*forming)},
                     {"regions", forming->regions},
                     {"region_bytes", forming->region_bytes}});
    if (!forming->stands_in_for.empty()) {
      list->back()["stands_in_for"] = forming->stands_in_for;
    }
    json vertices = vertices_json(*forming);
    if (!vertices.is_null()) list->back()["vertices"] = std::move(vertices);
  }
  // By shard, by job: every shard writes a row of its own.
  auto views = std::make_shared<std::vector<std::vector<JobView>>>(
      shards_.size(), std::vector<JobView>(slots.size()));
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  shards_.on_each(
      [views, slots](std::uint32_t i, engine::Shard& shard, auto&) {
        for (std::size_t job = 0; job < slots.size(); ++job) {
          (*views)[i][job] = view_of(shard.protocol(), slots[job]);
        }
      },
      [views, list, answer] {
        for (std::size_t job = 0; job < list->size(); ++job) {
          JobView all;
          for (const auto& by_job : *views) merge(all, by_job[job]);
          (*list)[job]["parts_outstanding"] = all.operations;
          (*list)[job]["times"] = times_json(all.totals);
          (*list)[job]["waiting"] = waiting_json(all.waiting);
        }
        answer->result(std::move(*list));
      });
}

void Introspection::metrics(const rpc::Request& request, rpc::Reply reply) const {
  rpc::Params params(request.params);
  const auto name = params.text("job", kMaxName);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const auto forming = find(name);
  if (!forming) return reply.error(forming.error());
  auto views = std::make_shared<std::vector<JobView>>(shards_.size());
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  json result = {{"name", name}, {"epoch", (*forming)->epoch}};
  shards_.on_each(
      [views, slot = (*forming)->slot](std::uint32_t i, engine::Shard& shard, auto&) {
        (*views)[i] = view_of(shard.protocol(), slot);
        (*views)[i].ranks = shard.protocol().rank_counters(slot);
        (*views)[i].cycles_per_ns = shard.clock().cycles_per_nano();
      },
      [views, answer, result = std::move(result)]() mutable {
        JobView all;
        for (const JobView& one : *views) merge(all, one);
        result["cycles_per_ns"] = views->front().cycles_per_ns;  // one counter's rate for all
        result["times"] = times_json(all.totals);
        result["ranks"] = ranks_json(all);
        answer->result(std::move(result));
      });
}

void Introspection::set_trace(std::uint32_t slot, std::size_t records,
                              std::function<void()> then) const {
  shards_.on_each([slot, records](auto, engine::Shard& shard,
                                  auto&) { shard.protocol().set_trace(slot, records); },
                  std::move(then));
}

void Introspection::trace(rpc::ConnectionId connection, const rpc::Request& request,
                          rpc::Reply reply) {
  rpc::Params params(request.params);
  const auto name = params.text("job", kMaxName);
  const bool on = params.flag_or("on", true);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const auto forming = find(name);
  if (!forming) return reply.error(forming.error());
  const FormingKey key{name, (*forming)->epoch};
  const auto owner = traces_.find(key);
  if (owner != traces_.end() && owner->second != connection) {
    return reply.error(Status::kRefused,
                       fmt::format("job \"{}\" is being traced by somebody else", name));
  }
  if (on) traces_[key] = connection;
  if (!on) traces_.erase(key);
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  set_trace((*forming)->slot, on ? kTraceRecords : 0, [answer, on, shards = shards_.size()] {
    answer->result({{"records", on ? kTraceRecords : 0}, {"shards", shards}});
  });
}

void Introspection::take_trace(rpc::ConnectionId connection, const rpc::Request& request,
                               rpc::Reply reply) const {
  rpc::Params params(request.params);
  const auto name = params.text("job", kMaxName);
  const auto wanted = params.number("shard", 0, shards_.size() - 1);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const auto forming = find(name);
  if (!forming) return reply.error(forming.error());
  const auto owner = traces_.find({name, (*forming)->epoch});
  if (owner == traces_.end() || owner->second != connection) {
    return reply.error(
        Status::kRefused,
        fmt::format("this connection does not trace job \"{}\": it has to call node.trace first",
                    name));
  }
  auto taken = std::make_shared<protocol::TraceRing::Taken>();
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  shards_.on_each(
      [taken, wanted, slot = (*forming)->slot](std::uint32_t i, engine::Shard& shard, auto&) {
        if (i == wanted) *taken = shard.protocol().take_trace(slot);
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
    const auto forming = find(trace->first.first);
    if (forming && (*forming)->epoch == trace->first.second) {
      set_trace((*forming)->slot, 0, [] {});
    }
    trace = traces_.erase(trace);
  }
}

}  // namespace tally::control
