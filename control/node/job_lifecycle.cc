#include "control/node/job_lifecycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/log/log.h"
#include "control/coordinator/rpc/service.h"
#include "control/node/session.h"

namespace tally::control {
namespace {

constexpr auto kLook = std::chrono::seconds(5);  // between looks for unclaimed assignments

}  // namespace

JobLifecycle::JobLifecycle(asio::io_context& io, ShardSet& shards, Admission& admission,
                           EndedJobs& ended, const Options& options,
                           std::function<void(JobInstance&)> end_sessions)
    : shards_(shards),
      admission_(admission),
      ended_(ended),
      end_sessions_(std::move(end_sessions)),
      timeout_(io),
      parent_connections_(io, shards, options.node, options.credentials, options.serves) {
  parent_connections_.on_lost(
      [this](protocol::JobId job_id, const std::string& lost) { on_parent_lost(job_id, lost); });
}

// Every shard knows every job, also a shard that does not serve it.
void JobLifecycle::add(const JobInstance& instance, WorkDone then) {
  std::vector<protocol::JobSpec> specs;
  for (std::uint32_t i = 0; i < shards_.size(); ++i) specs.push_back(instance.spec_at(i));
  shards_.on_each(
      [job_id = instance.job_id, specs = std::move(specs)](std::uint32_t i, engine::Shard& shard,
                                                           auto&) {
        shard.expect_children(std::size_t{specs[i].ranks} + specs[i].child_nodes);
        shard.protocol().add_job(job_id, specs[i]);
      },
      std::move(then));
}

void JobLifecycle::leave(JobInstance& instance, std::uint32_t member) {
  if (!admission_.leave(instance, member)) return settle(instance);
  log::info("job-over", {{"job", instance.name}, {"epoch", instance.epoch}});
  remove(instance);
}

void JobLifecycle::place(const JobAssignment& placement, std::function<void(const Outcome&)> then) {
  const auto placed = admission_.place(placement, monotonic_now());
  if (!placed) return then(placed.error());
  if (placed->replaced != nullptr) drop(*placed->replaced);
  const JobInstance& instance = *placed->instance;
  // Identifies the instance by identity, because the next coordinator may have placed another
  // instance under the same number by then.
  const std::uint64_t identity = instance.identity;
  auto connected = [this, identity, then = std::move(then)](const Outcome& outcome) {
    then(outcome);
    on_placed(identity, outcome);
  };
  const Nanos deadline = monotonic_now() + parent_timeout_;
  add(instance, [this, identity, deadline, connected](const Outcome& done) {
    JobInstance* here = admission_.find(identity);
    if (here == nullptr) return;
    here->set_registered(done.ok());
    if (!done) return connected(no_memory_for(fmt::format("the tables of job \"{}\"", here->name)));
    if (!here->over) parent_connections_.connect(*here, deadline, connected);
  });
  log::info("job-placed", {{"job", instance.name},
                           {"epoch", instance.epoch},
                           {"ranks", instance.ranks()},
                           {"trees", instance.vertices.size()},
                           {"of", instance.plan.trees},
                           {"above", instance.above.size()},
                           {"nodes", instance.nodes}});
  watch_unclaimed();
}

// An instance that cannot be served has ended. The coordinator has received the error already.
void JobLifecycle::on_placed(std::uint64_t identity, const Outcome& outcome) {
  JobInstance* instance = admission_.find(identity);
  if (instance == nullptr) return;
  if (outcome) return settle(*instance);
  log::warning("job-not-connected", {{"job", instance->name}, {"epoch", instance->epoch}});
  if (!instance->over) finish(*instance);
}

// The shards notify the ranks. When the job is over, the loss is normal: a parent node that has
// nothing left to do ends its sessions before its child nodes do.
void JobLifecycle::on_parent_lost(protocol::JobId job_id, const std::string& node) {
  for (const auto& instance : admission_.instances()) {
    if (instance->job_id != job_id || instance->over) continue;
    log::warning("parent-lost",
                 {{"job", instance->name}, {"epoch", instance->epoch}, {"node", node}});
    set_over(*instance);
    if (instance->joined == 0) drop(*instance);  // no session joins any more
    return;
  }
}

// Each node may be a parent of each other node, in different trees. So a node does not wait until
// its child nodes have gone. It waits until no rank is left below it in any tree, which vertices
// report to their parents.
void JobLifecycle::settle(JobInstance& instance) {
  if (!instance.over || instance.joined == 0) return;
  std::vector<protocol::Vertex> empty;
  std::copy_if(instance.vertices.begin(), instance.vertices.end(), std::back_inserter(empty),
               [&](const protocol::Vertex& vertex) { return instance.is_empty(vertex); });
  parent_connections_.report_empty(instance, empty);
  if (empty.size() == instance.vertices.size()) end_sessions_(instance);
}

void JobLifecycle::withdraw(std::uint64_t placement) {
  JobInstance* instance = admission_.placed(placement);
  if (instance == nullptr || instance->over) return;
  finish(*instance);
}

void JobLifecycle::finish(JobInstance& instance) {
  set_over(instance);
  instance.joined == 0 ? drop(instance) : settle(instance);
}

void JobLifecycle::forget_placements() {
  for (const auto& instance : admission_.instances()) instance->placement = 0;
}

void JobLifecycle::set_over(JobInstance& instance) {
  if (instance.over) return;
  instance.over = true;
  report_over(instance);
}

void JobLifecycle::report_over(JobInstance& instance) {
  const std::uint64_t placement = std::exchange(instance.placement, 0);
  if (placement != 0 && on_over_) on_over_(placement);
}

void JobLifecycle::drop(JobInstance& instance) {
  report_over(instance);
  log::info("job-dropped", {{"job", instance.name}, {"epoch", instance.epoch}});
  remove(instance);
}

void JobLifecycle::watch_unclaimed() {
  if (std::exchange(watching_, true)) return;
  timeout_.expires_after(kLook);
  timeout_.async_wait([this](const std::error_code& error) {
    if (error) return;  // the timer was cancelled, and this object may be gone
    watching_ = false;
    for (JobInstance* instance : admission_.unclaimed(monotonic_now())) {
      log::warning("job-unclaimed", {{"job", instance->name}, {"epoch", instance->epoch}});
      finish(*instance);
    }
    const auto& all = admission_.instances();
    const bool more = std::any_of(all.begin(), all.end(),
                                  [](const auto& instance) { return instance->unclaimed(); });
    if (more) watch_unclaimed();
  });
}

// The report is of use, and not necessary: without memory the job ends without one. Tasks run in
// the order of their calls, so the shards know the job until they have reported.
void JobLifecycle::keep_post_mortem(const JobInstance& instance) {
  if (instance.registration != JobInstance::Registration::kDone) return;
  const Nanos now = monotonic_now();
  within_memory([&] {
    auto report = std::make_shared<PostMortem>(begin_post_mortem(instance, shards_.size(), now));
    shards_.on_each(
        [report, now, job_id = instance.job_id](std::uint32_t i, engine::Shard& shard, auto&) {
          report->shards[i] = post_mortem_of(shard, job_id, now);
        },
        [this, report, lock = instance.lock](const Outcome& done) {
          if (done) within_memory([&] { ended_.add(std::move(*report), lock); });
        });
  });
}

void JobLifecycle::remove(JobInstance& instance) {
  keep_post_mortem(instance);
  parent_connections_.remove(instance, [this, &instance] { admission_.release(instance); });
}

}  // namespace tally::control
