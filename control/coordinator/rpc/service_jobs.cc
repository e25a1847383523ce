// What the coordinator answers about itself and its jobs: cluster.jobs (the state of all jobs, also
// of jobs that no node serves yet), cluster.coordinator, and who may see what.
#include <nlohmann/json.hpp>
#include <utility>

#include "control/access/job_lock.h"
#include "control/coordinator/rpc/service.h"

namespace tally::control {

using nlohmann::json;

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
      job.is_string() ? coordinator_.jobs().current(job.get<std::string>()) : nullptr;
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
  for (const Coordinator::Progress& job : coordinator_.progress()) {
    if (!may_see(caller, job.name, coordinator_.jobs().record(job.epoch)->lock)) continue;
    list.push_back({{"name", job.name},
                    {"epoch", job.epoch},
                    {"stage", job.stage},
                    {"ranks", job.ranks},
                    {"come", job.come},
                    {"nodes", job.nodes},
                    {"source", job.by_file ? "file" : "closed form"},
                    {"plan_epoch", job.plan_epoch},
                    {"waits_for", job.waits_for},
                    {"trouble", job.trouble}});
  }
  reply.result(std::move(list));
}

void CoordinatorService::coordinator_status(const rpc::Request& request, rpc::Reply reply) const {
  rpc::Params params(request.params);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const CoordinatorStatus status = options_.status();
  reply.result({{"instance", status.instance},
                {"name", status.name},
                {"members", store_.members().size()},
                {"electing", status.is_electing},
                {"coordinator", status.coordinator}});
}

}  // namespace tally::control
