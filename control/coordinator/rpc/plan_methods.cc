#include "control/coordinator/rpc/plan_methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/log/log.h"
#include "control/plan/json/machines_json.h"
#include "control/plan/json/plan_json.h"
#include "control/plan/json/served.h"
#include "control/plan/model/validate.h"
#include "net/rpc/params.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxPiece = 60 << 10;  // of a request
// Bytes of unfinished plan uploads.
constexpr std::size_t kMostUploads = 4 * plan::kServedBytes;

// The measured speeds and racks of a file of machines, by member.
Result<std::map<std::string, Measured>> measured_by(const std::string& machines) {
  std::map<std::string, Measured> measured;
  const auto file = plan::read_machines(machines);
  if (!file) return file.error();
  std::map<std::string, Rack> racks;
  for (const plan::Switch& one : file->racks) {
    if (!one.to.empty()) {
      return Error{Status::kUnsupported,
                   fmt::format("rack \"{}\" is below \"{}\": a coordinator plans for racks below "
                               "one switch alone; leave \"to\" out, or make a plan (tallyctl plan "
                               "make --network FILE) and set it",
                               one.name, one.to)};
    }
    racks[one.name] = {one.name, static_cast<std::uint64_t>(one.up),
                       static_cast<std::uint64_t>(one.down)};
  }
  for (const plan::Machine& one : file->machines) {
    const auto machine = plan::vertex_of(one);
    if (!machine) return machine.error();
    measured[one.name] = {static_cast<std::uint64_t>(std::min(machine->in, machine->out)),
                          static_cast<std::uint64_t>(one.sum),
                          one.rack.empty() ? Rack{} : racks[one.rack]};
  }
  return measured;
}

// Adds the plan's source to the answer.
void describe(const SetPlan& plan, json& answer) {
  answer["source"] = source_name(plan.source);
  if (plan.source != PlanSource::kFile) return;
  answer["for"] = plan.job;
  answer["domain"] = plan.machines.of().name;
  answer["plan_epoch"] = plan.machines.file.epoch;
}

}  // namespace

void PlanMethods::handle(rpc::ConnectionId connection, const rpc::Request& request,
                         rpc::Reply reply) {
  if (request.method == "plan.set") return set(connection, request, std::move(reply));
  if (request.method == "plan.show") return show(request, std::move(reply));
  reply.unknown_method(request.method);
}

std::size_t PlanMethods::uploaded_bytes() const {
  return std::accumulate(
      uploads_.begin(), uploads_.end(), std::size_t{0},
      [](std::size_t sum, const auto& upload) { return sum + upload.second.size(); });
}

void PlanMethods::set(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply) {
  rpc::Params params(request.params);
  Wish wish;
  wish.job = params.text_or("job", kMaxJobName, "");
  wish.domain = params.text_or("domain", 256, "");
  const bool closed_form = params.flag_or("closed_form", false);
  const bool now = params.flag_or("now", false);
  const bool more = params.flag_or("more", false);
  const std::string piece = params.text_or("text", kMaxPiece, "");
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (uploaded_bytes() + piece.size() > kMostUploads) {
    uploads_.erase(connection);
    return reply.error(
        Status::kAgain,
        fmt::format(
            "unfinished plan uploads of all connections would pass {} bytes: try again later",
            kMostUploads));
  }
  std::string& text = uploads_[connection];
  text += piece;
  if (text.size() > plan::kServedBytes) {
    uploads_.erase(connection);
    return reply.error(Status::kRefused, fmt::format("the plan has more than {} bytes, which is "
                                                     "all that a coordinator keeps",
                                                     plan::kServedBytes));
  }
  if (more) return reply.result({{"bytes", text.size()}});
  const std::string whole = std::move(text);
  uploads_.erase(connection);
  json answer = json::object();
  if (closed_form) {
    if (const auto done = take_back(wish.job, whole); !done) return reply.error(done.error());
  } else {
    const auto domains = accept(whole, wish);
    if (!domains) return reply.error(domains.error());
    answer["domains"] = *domains;
  }
  if (now) coordinator_.replan(wish.job);
  reply.result(std::move(answer));
}

// Checks that the job's plan can be taken back. A name without a job and without a plan is a typing
// error.
Outcome PlanMethods::is_known(const std::string& job) const {
  const auto& all = coordinator_.plans().all();
  if (job.empty() || all.contains(job) || coordinator_.jobs().current(job) != nullptr)
    return Unit{};
  std::string own;
  for (const auto& [name, set] : all) {
    if (!name.empty()) own += fmt::format("{}\"{}\"", own.empty() ? "" : ", ", name);
  }
  return Error{Status::kInvalidArgument,
               fmt::format("no job \"{}\" runs here, and none has a plan of its own by that name; "
                           "with plans of their own: {}",
                           job, own.empty() ? "none" : own)};
}

// Takes back the job's plan. An empty `job` means all jobs: the coordinator's own plan of them then
// takes the speeds and racks of `machines`. An empty text means those that members declare.
Outcome PlanMethods::take_back(const std::string& job, const std::string& machines) {
  if (auto known = is_known(job); !known) return known;
  std::map<std::string, Measured> measured;
  if (!machines.empty()) {
    auto read = measured_by(machines);
    if (!read) return read.error();
    measured = std::move(read).value();
  }
  if (job.empty()) {
    if (const auto set = coordinator_.set_speeds(std::move(measured)); !set) return set;
  } else if (!measured.empty()) {
    return Error{Status::kInvalidArgument, "speeds are of all jobs: leave out --job"};
  }
  coordinator_.drop_plan(job, monotonic_now());
  log::info("plan-dropped", {{"job", job}, {"measured", !machines.empty()}});
  return Unit{};
}

// In a file of several domains, the domains' names are the names of their jobs.
Result<std::vector<std::string>> PlanMethods::accept(const std::string& text, const Wish& wish) {
  auto file = plan::read_plan(text);
  if (!file) return file.error();
  if (auto valid = plan::validate(*file, {}); !valid) return valid.error();
  std::vector<std::string> taken;
  const bool several = file->domains.size() > 1 && wish.domain.empty();
  if (several && !wish.job.empty()) {
    return Error{Status::kInvalidArgument,
                 fmt::format("the plan has {} domains: say which one job \"{}\" shall have "
                             "(--domain NAME)",
                             file->domains.size(), wish.job)};
  }
  std::vector<std::pair<std::string, MachinePlan>> plans;  // by job
  std::set<std::string> jobs;
  for (std::size_t i = 0; i < file->domains.size(); ++i) {
    const std::string& name = file->domains[i].name;
    if (!wish.domain.empty() && name != wish.domain) continue;
    plans.emplace_back(several ? name : wish.job, MachinePlan{*file, i});
    taken.push_back(name);
    jobs.insert(plans.back().first);
    const auto fine = check_layout(plans.back().second, coordinator_.members().all());
    if (!fine) return fine.error();  // all plans are taken, or none
  }
  if (auto room = coordinator_.plans().may_have(jobs); !room) return room.error();
  for (auto& [job, machines] : plans) {
    const auto set = coordinator_.set_plan(job, std::move(machines), monotonic_now());
    if (!set) return set.error();
    log::info("plan-set", {{"job", job}, {"epoch", file->epoch}});
  }
  if (!taken.empty()) return taken;
  return Error{Status::kInvalidArgument, fmt::format("the plan has no domain \"{}\"", wish.domain)};
}

// Shows the plan by which the job runs, unless the client requests the plan in force. Without such
// a job there is only the plan in force.
void PlanMethods::show(const rpc::Request& request, rpc::Reply reply) const {
  rpc::Params params(request.params);
  const std::string job = params.text_or("job", kMaxJobName, "");
  const bool wants_in_force = params.flag_or("in_force", false);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  json own = json::array();
  for (const auto& [name, set] : coordinator_.plans().all()) {
    if (!name.empty() && (job.empty() || job == name))
      own.push_back(name);  // a job's owner sees that job alone
  }
  json answer = {{"jobs_with_own", std::move(own)}};
  const auto in_force = coordinator_.in_force(job);
  auto shown = in_force;
  const JobRecord* running = coordinator_.jobs().current(job);
  if (running != nullptr && running->made_by != nullptr) {
    answer["running"] = {{"epoch", running->epoch},
                         {"source", source_name(running->made_by->source)},
                         {"plan_epoch", running->plan_epoch}};
    for (const PlanNode& one : running->nodes) {
      if (one.stands_in_for.empty()) continue;
      answer["running"]["substitutes"].push_back(
          {{"node", one.member.name}, {"for", one.stands_in_for}});
    }
    if (!wants_in_force) shown = running->made_by;
  }
  if (shown == nullptr) {
    return reply.error(Status::kUnavailable,
                       "no node has joined here, or all are drained: ask the coordinator of a "
                       "cluster");
  }
  describe(*shown, answer);
  answer["text"] = plan::write_plan(shown->machines.file);
  if (answer.contains("running") && !wants_in_force) {
    answer["running"]["shown"] = true;
    if (in_force != nullptr && plan::write_plan(in_force->machines.file) != answer["text"]) {
      describe(*in_force, answer["newer"]);
    }
  }
  reply.result(std::move(answer));
}

}  // namespace tally::control
