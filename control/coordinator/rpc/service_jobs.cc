// What the coordinator answers about itself, its members and its jobs: cluster.nodes, cluster.jobs
// (the state of all jobs, also of jobs that no node serves yet), job.open (where a job is),
// cluster.coordinator, and who may see what.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "control/access/job_lock.h"
#include "control/coordinator/rpc/rank_message.h"
#include "control/coordinator/rpc/service.h"
#include "net/rpc/fault_json.h"
#include "net/rpc/message.h"
#include "net/rpc/partition_json.h"

namespace tally::control {

using nlohmann::json;

namespace {

// The address of the NIC that the job uses there, which is up.
const std::string& tcp_of(const PlanNode& node) {
  const auto& rails = node.member.rails;
  const bool by_rail = !node.rails.empty() && !rails[node.rails.front()].tcp.empty();
  return by_rail ? rails[node.rails.front()].tcp : node.member.tcp;
}

}  // namespace

// The nodes that this rank connects to: its parents, and the indices of the shards there.
json CoordinatorService::opened(const JobRecord& job, std::uint32_t rank) const {
  if (job.nodes.empty()) return {{"nodes", json::array()}};
  json list = json::array(), names = json::array();
  for (const PlanNode& one : job.nodes) {
    names.push_back(one.member.name);
    json trees = json::array(), shards = json::array();
    const auto indices = one.indices(job.plan);
    for (std::size_t i = 0; i < one.vertices.size(); ++i) {
      const auto& children = one.vertices[i].ranks;
      if (!std::binary_search(children.begin(), children.end(), rank)) continue;
      trees.push_back(one.trees[i]);
      shards.push_back(indices[i]);
    }
    if (trees.empty()) continue;
    list.push_back({{"name", one.member.name},
                    {"host", one.member.host},
                    {"tcp", tcp_of(one)},
                    {"unix", one.member.local},
                    {"trees", std::move(trees)},
                    {"lanes", std::move(shards)}});
  }
  json answer = {{"epoch", job.epoch},
                 {"plan_epoch", job.plan_epoch},
                 {"nodes", std::move(list)},
                 {"names", std::move(names)},
                 {"deadline_ms", timeouts().deadline() / kMillisecond},
                 {"repairs", true}};
  if (job.lock.key) answer["key"] = net::auth::text_of(*job.lock.key);
  put_rank_loss(answer, job.rank_loss, job.left_out);
  rpc::put_fault(answer, timeouts().fault);
  rpc::put_partition(answer, job.plan);
  rpc::put_weights(answer, job.plan);
  return with_term(std::move(answer));
}

const std::string& CoordinatorService::opened_text(const SharedJob& job, std::uint32_t rank) {
  std::vector<bool> parents;
  for (const PlanNode& one : job->nodes) {
    for (const protocol::Vertex& vertex : one.vertices) {
      parents.push_back(std::binary_search(vertex.ranks.begin(), vertex.ranks.end(), rank));
    }
  }
  if (last_answer_.job.lock() != job || last_answer_.parents != parents) {
    last_answer_ = {job, std::move(parents), rpc::to_text(opened(*job, rank))};
  }
  return last_answer_.text;
}

void CoordinatorService::answer_rank(const Coordinator::Answer& answer) {
  const auto connection = by_ticket_.find(answer.ticket);
  if (connection == by_ticket_.end()) return;
  Conversation& caller = callers_.at(connection->second);
  if (caller.ticket != answer.ticket || !caller.opens) return;
  rpc::Reply reply = std::move(*std::exchange(caller.opens, std::nullopt));
  if (!answer.outcome) {
    reply.revoke(rpc::Grant::kRank);
    return reply.error(answer.outcome.error());
  }
  if (answer.first.empty()) return reply.result_text(opened_text(*answer.outcome, answer.rank));
  json message = opened(**answer.outcome, answer.rank);
  put_first(message, answer.first);
  reply.result(std::move(message));
}

Caller CoordinatorService::caller_of(rpc::ConnectionId connection) const {
  return options_.access->caller(options_.peer_of(connection));
}

// A job's plan has its name and shows where its ranks are. Without a job, the answer names jobs.
Outcome CoordinatorService::may_show_plan(rpc::ConnectionId connection,
                                          const rpc::Request& request) const {
  const Caller caller = caller_of(connection);
  if (request.method != "plan.show" || caller.is_operator) return Unit{};
  const json job = request.params.value("job", json());
  const JobRecord* record =
      job.is_string() ? coordinator_->jobs().current(job.get<std::string>()) : nullptr;
  if (record != nullptr && may_see(caller, record->name, record->lock)) return Unit{};
  return refused("plan.show is for operators and for the owner of the job");
}

// The jobs that the caller may see.
void CoordinatorService::jobs(rpc::ConnectionId connection, const rpc::Request& request,
                              rpc::Reply reply) const {
  rpc::Params params(request.params);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  json list = json::array();
  const Caller caller = caller_of(connection);
  for (const Coordinator::Progress& job : coordinator_->progress()) {
    if (!may_see(caller, job.name, coordinator_->jobs().record(job.epoch)->lock)) continue;
    list.push_back({{"name", job.name},
                    {"epoch", job.epoch},
                    {"stage", job.stage},
                    {"ranks", job.ranks},
                    {"come", job.come},
                    {"nodes", job.nodes},
                    {"source", source_name(job.source)},
                    {"plan_epoch", job.plan_epoch},
                    {"waits_for", job.waits_for},
                    {"trouble", job.trouble}});
    put_rank_loss(list.back(), coordinator_->jobs().record(job.epoch)->rank_loss, job.left_out);
  }
  reply.result(std::move(list));
}

void CoordinatorService::nodes(const rpc::Request& request, rpc::Reply reply) const {
  rpc::Params params(request.params);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  json list = json::array();
  for (const auto& [node, member] : store_->members()) {
    const NodeLoad load = coordinator_->jobs().load_of(node);
    list.push_back({{"node", node},
                    {"name", member.name},
                    {"host", member.host},
                    {"role", role_name(member.role)},
                    {"tcp", member.tcp},
                    {"unix", member.local},
                    {"shards", member.shards},
                    {"speed", member.usable_speed()},
                    {"rails", to_json(member.rails)},
                    {"rack", member.known_rack().name},
                    {"draining", member.draining},
                    {"stands_in_for", load.stands_in_for},
                    {"jobs", load.jobs},
                    {"trees", load.trees}});
  }
  reply.result(std::move(list));
}

void CoordinatorService::coordinator_status(const rpc::Request& request, rpc::Reply reply) const {
  rpc::Params params(request.params);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const CoordinatorStatus status = options_.status();
  json answer = {{"instance", status.instance},
                 {"name", status.name},
                 {"members", store_->members().size()},
                 {"electing", status.is_electing},
                 {"coordinator", status.coordinator}};
  if (options_.is_elected || status.is_elected) answer["elected"] = true;
  // 0: this node does not act now.
  if (options_.is_elected) answer["term"] = term_;
  reply.result(std::move(answer));
}

}  // namespace tally::control
