// The method cluster.jobs: the state of all jobs, also of jobs that no node serves yet.
#include <nlohmann/json.hpp>
#include <utility>

#include "control/coordinator/rpc/service.h"

namespace tally::control {

using nlohmann::json;

void CoordinatorService::jobs(const rpc::Request& request, rpc::Reply reply) const {
  rpc::Params params(request.params);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  json list = json::array();
  for (const Coordinator::Progress& job : coordinator_.progress()) {
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

}  // namespace tally::control
