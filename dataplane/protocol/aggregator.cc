// Adds and removes jobs, and passes each event of the shard to the unit that decides about it.
#include "dataplane/protocol/aggregator.h"

#include <algorithm>
#include <utility>

#include "dataplane/protocol/operations/verdict.h"

namespace tally::protocol {

Aggregator::Aggregator(AggregatorConfig config)
    : config_(std::move(config)),
      scheduler_(tile_limits(config_)),
      sizing_(config_.small),
      backlog_(config_.stream_bytes),
      parents_(outbox_, scheduler_, sizing_, backlog_),
      children_(outbox_, parents_),
      verdicts_(outbox_, scheduler_, pacer_, backlog_, parents_, children_),
      losses_(jobs_, outbox_, verdicts_, parents_, children_),
      deadlines_(jobs_, outbox_, verdicts_, parents_, children_),
      matching_(config_, outbox_, scheduler_, sizing_, backlog_, verdicts_, parents_),
      tiles_(config_, jobs_, scheduler_, pacer_, sizing_, backlog_, verdicts_, parents_, children_),
      inspector_(jobs_, scheduler_) {}

// When it throws, there is no such job.
void Aggregator::add_job(JobId id, const JobSpec& spec) {
  JobSpec here = spec;
  if (here.plan.classes.empty()) {
    here.plan = config_.plan;
    if (here.vertices.empty()) here.vertices.push_back(star(config_.shard, spec.ranks));
  }
  const Job& job = jobs_.add(id, std::move(here), config_.one_class);
  bool scheduled = false;
  try {
    scheduler_.add_job(id, {spec.weight, spec.owner});
    scheduled = true;
    for (std::uint16_t i = 0; i < job.positions.size(); ++i) {
      // A tile takes a buffer of each of its child nodes, those of a result tree included.
      scheduler_.reserve(id, job.positions[i].cls, spec.credit,
                         job.has_child_nodes(i) ? spec.buffers.up : UINT32_MAX);
      const Vertex& vertex = job.spec.vertices[i];
      pacer_.add({id, i, vertex.tree, vertex.height, vertex.pace, spec.credit});
    }
    const auto is_other = [&](const auto& other) { return other != nullptr && other->id != id; };
    if (std::ranges::any_of(jobs_.all(), is_other)) scheduler_.on_probation(id);
    reserve();
  } catch (...) {
    if (scheduled) scheduler_.remove_job(id);
    pacer_.remove_job(id);
    jobs_.remove(id);
    throw;
  }
}

// Reserves room for what all jobs together may send or start in a turn, without bursts of verdicts.
void Aggregator::reserve() {
  std::size_t ranks = 0;
  std::size_t down = 0;
  std::size_t up = 0;
  std::size_t results = 0;
  for (const auto& job : jobs_.all()) {
    if (job == nullptr) continue;
    const JobSpec& spec = job->spec;
    const std::size_t between = spec.buffers.all_up() + spec.buffers.all_down() + spec.credit;
    ranks += spec.ranks;
    down += spec.child_nodes * between;
    up += spec.parents * between;
    results += std::size_t{spec.parents} * spec.buffers.all_down();
  }
  outbox_.reserve(ranks * 4, down, up);
  parents_.reserve(results);
}

// Does nothing for a job that found no memory.
void Aggregator::remove_job(JobId id) {
  const Job* job = jobs_.find(id);
  if (job == nullptr) return;
  for (std::size_t child = job->spec.ranks; child < job->members.size(); ++child) {
    outbox_.drop_member(job->members[child].member);
  }
  for (const ParentBuffers& parent : job->parents) outbox_.drop_parent(parent.parent_id);
  parents_.remove_job(id);
  scheduler_.remove_job(id);
  pacer_.remove_job(id);
  jobs_.remove(id);
}

void Aggregator::join(JobId id, std::uint16_t rank, SessionId member) {
  jobs_.join(id, rank, member);
  Job& job = jobs_[id];
  if (!job.is_child_node(rank)) return;
  losses_.joined(job, rank);
  verdicts_.joined(job, rank);
}

void Aggregator::join_parent(JobId id, std::uint32_t parent, ParentId parent_id,
                             std::uint32_t region, Nanos now) {
  jobs_.join_parent(id, parent, parent_id);
  jobs_[id].parents[parent].region = region;
  parents_.joined(jobs_[id], parent, now);
}

void Aggregator::announce(SessionId member, const wire::Notice& notice, Status admissible,
                          Nanos now) {
  const auto [job, child] = jobs_.child(member);
  if (job != nullptr) matching_.announce(*job, child, notice, admissible, now);
}

Extents Aggregator::extents(SessionId member, const wire::Notice& notice) const {
  const auto [job, child] = jobs_.child(member);
  return job != nullptr ? extents_of(*job, child, member, notice) : Extents{};
}

void Aggregator::gone(SessionId member, Status why, Nanos now) {
  const auto [job, child] = jobs_.child(member);
  if (job != nullptr) losses_.gone(*job, child, why, now);
}

void Aggregator::gone(JobId id, std::uint16_t child, Status why, Nanos now) {
  Job* job = jobs_.find(id);  // null when it found no memory
  if (job != nullptr) losses_.gone(*job, child, why, now);
}

Status Aggregator::handle_child_message(SessionId member, const RingEntry& entry, Nanos now) {
  const auto [job, child] = jobs_.child(member);
  if (job == nullptr || !job->is_child_node(child)) return Status::kProtocol;
  wire::Completion report;
  if (wire::parse(entry, report) == Status::kOk) {
    return verdicts_.reported(*job, child, report, now);
  }
  wire::VertexMessage message;
  if (const Status status = wire::parse(entry, message); status != Status::kOk) return status;
  if (message.epoch != job->spec.epoch) return Status::kProtocol;
  switch (message.kind) {
    case wire::VertexKind::kTileReady:
      return children_.tile_ready(*job, child, message);
    case wire::VertexKind::kTilePlaced: {
      PoolIndex operation = kNone;
      const Status status = children_.tile_placed(*job, child, message, operation);
      if (operation != kNone) verdicts_.conclude_if_over(*job, operation, now);
      return status;
    }
    case wire::VertexKind::kBroken:
      return losses_.broken(*job, message, member, kNoParentId, now);
    case wire::VertexKind::kTileWanted:
    case wire::VertexKind::kTileResult:
    case wire::VertexKind::kMissing:
      break;  // only a parent sends these
  }
  return Status::kProtocol;
}

Status Aggregator::handle_parent_message(ParentId parent_id, const RingEntry& entry, Nanos now) {
  const auto [job, parent] = jobs_.parent(parent_id);
  if (job == nullptr) return Status::kProtocol;
  wire::Completion completion;
  if (wire::parse(entry, completion) == Status::kOk) {
    return verdicts_.judged(*job, parent, completion, now);
  }
  wire::VertexMessage message;
  if (const Status status = wire::parse(entry, message); status != Status::kOk) return status;
  if (message.epoch != job->spec.epoch) return Status::kProtocol;
  if (message.kind == wire::VertexKind::kBroken) {
    return losses_.broken(*job, message, kNoSession, parent_id, now);
  }
  const std::uint16_t vertex = job->vertex_in(message.tree);
  if (vertex == kNoVertex || job->spec.vertices[vertex].parent != parent) return Status::kProtocol;
  switch (message.kind) {
    case wire::VertexKind::kTileWanted:
      return parents_.tile_wanted(*job, parent, message);
    case wire::VertexKind::kTileResult:
      return parents_.tile_result(*job, parent, message);
    case wire::VertexKind::kMissing:
      deadlines_.asked(*job, message, now);
      return Status::kOk;
    default:
      return Status::kProtocol;  // only a child sends these
  }
}

void Aggregator::parent_gone(ParentId parent, Status why, Nanos now) {
  losses_.parent_gone(parent, why, now);
}

void Aggregator::expire(Nanos now) {
  deadlines_.expire(now);
  scheduler_.review(now);
}

Nanos Aggregator::next_deadline() const {
  return std::min({scheduler_.next_review(), deadlines_.next(), pacer_.next_release()});
}

void Aggregator::waited_for(const Stuck& stuck, SessionId member) {
  Job& job = jobs_[stuck.job];
  const auto child = jobs_.number_of(member);
  if (child) name_culprit(job.table[stuck.operation], job.blamed(*child));
}

}  // namespace tally::protocol
