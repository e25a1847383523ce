// Jobs, members, and announcements.
#include "dataplane/protocol/aggregator.h"

#include <algorithm>

#include "base/probes.h"
#include "dataplane/protocol/granules.h"
#include "dataplane/protocol/job.h"

namespace tally::protocol {
namespace {

Shape shape_of(const wire::Notice& notice, std::uint16_t ranks) {
  return Shape{notice.kind, notice.type, notice.operation, notice.root, ranks, notice.count};
}

Operand operand_of(const wire::Notice& notice) {
  return Operand{notice.group, notice.tag, notice.type, notice.count};
}

std::vector<TileScheduler::Limits> classes_of(const AggregatorConfig& config) {
  std::vector<TileScheduler::Limits> classes = {{config.window_bytes, config.tiles}};
  if (config.one_class) return classes;
  classes.resize(config.max_height, {config.window_bytes, config.upper_tiles});
  return classes;
}

}  // namespace

std::uint32_t tile_slots(const AggregatorConfig& config) {
  return config.one_class ? config.tiles
                          : config.tiles + (config.max_height - 1) * config.upper_tiles;
}

std::uint64_t most_inputs(const AggregatorConfig& config, std::uint32_t ranks) {
  const std::uint64_t upper = tile_slots(config) - config.tiles;
  return std::uint64_t{config.tiles} * ranks + upper * std::min(ranks, config.upper_inputs);
}

Aggregator::Aggregator(AggregatorConfig config)
    : config_(std::move(config)), scheduler_(classes_of(config_)), grain_(config_.small) {}

Aggregator::~Aggregator() = default;

void Aggregator::add_job(JobSlot slot, const JobSpec& spec) {
  if (slot >= jobs_.size()) jobs_.resize(slot + 1);
  JobSpec here = spec;
  if (here.plan.classes.empty()) {
    here.plan = config_.plan;
    if (here.vertices.empty()) here.vertices.push_back(star(config_.shard, spec.ranks));
  }
  here.window_bytes = std::min(spec.window_bytes, config_.window_bytes);
  jobs_[slot] = std::make_unique<Job>(slot, std::move(here), config_.one_class);
  const Job& job = *jobs_[slot];
  scheduler_.add_job(slot, spec.weight, job.spec.window_bytes);
  for (std::size_t i = 0; i < job.places.size(); ++i) {
    // A tile has a slot of each of its branches.
    const bool plain = job.spec.vertices[i].branches.empty();
    scheduler_.reserve(slot, job.places[i].cls, spec.credit, plain ? UINT32_MAX : spec.slots.up);
  }
  reserve();
}

// For what all jobs together may have to be sent or started in a turn, but for bursts of verdicts.
void Aggregator::reserve() {
  std::size_t ranks = 0;
  std::size_t down = 0;
  std::size_t up = 0;
  std::size_t results = 0;
  for (const auto& job : jobs_) {
    if (job == nullptr) continue;
    const JobSpec& spec = job->spec;
    const std::size_t between = spec.slots.all_up() + spec.slots.all_down() + spec.credit;
    ranks += spec.ranks;
    down += spec.branches * between;
    up += spec.parents * between;
    results += std::size_t{spec.parents} * spec.slots.all_down();
  }
  outbox_.reserve(ranks * 4);
  letters_down_.reserve(down);
  letters_up_.reserve(up);
  steps_.reserve(down);
  downs_.reserve(results);
}

void Aggregator::remove_job(JobSlot job) {
  std::erase_if(letters_down_, [&](const Letter& one) { return members_[one.to].job == job; });
  std::erase_if(letters_up_, [&](const Letter& one) { return links_[one.to].job == job; });
  downs_.erase(downs_.begin(), downs_.begin() + static_cast<std::ptrdiff_t>(next_down_));
  next_down_ = 0;
  std::erase_if(downs_, [&](const DownEntry& one) { return one.job == job; });
  for (MemberEntry& member : members_) member.joined &= member.job != job;
  for (LinkEntry& link : links_) link.joined &= link.job != job;
  scheduler_.remove_job(job);
  jobs_[job].reset();
}

bool Aggregator::busy(JobSlot job) const {
  return jobs_[job]->tiles > 0;
}

void Aggregator::join(JobSlot job, std::uint16_t rank, Member member) {
  if (member >= members_.size()) members_.resize(member + 1);
  members_[member] = MemberEntry{job, rank, true};
  jobs_[job]->members[rank].member = member;
  if (jobs_[job]->is_branch(rank)) tell_joined(*jobs_[job], rank);
}

std::uint32_t Aggregator::operations(JobSlot job) const {
  return jobs_[job]->table.size();
}

Aggregator::Job* Aggregator::job_of(Member member) {
  if (member >= members_.size() || !members_[member].joined) return nullptr;
  return jobs_[members_[member].job].get();
}

const Aggregator::Job* Aggregator::job_of(Member member) const {
  return const_cast<Aggregator*>(this)->job_of(member);
}

Aggregator::Extents Aggregator::extents(Member member, const wire::Notice& notice) const {
  Extents extents;
  const Job* job = job_of(member);
  if (job == nullptr) return extents;
  const std::uint16_t rank = members_[member].rank;
  if (job->is_branch(rank)) {
    extents.in = Endpoint{member, notice.in_region, 0, job->spec.slots.total_bytes()};
    return extents;
  }
  const Shape shape = shape_of(notice, job->spec.ranks);
  const std::uint64_t size = element_bytes(notice.type);
  extents.in =
      Endpoint{member, notice.in_region, notice.in_offset, contribution(shape, rank).count * size};
  extents.out =
      Endpoint{member, notice.out_region, notice.out_offset, result(shape, rank).count * size};
  extents.side = Endpoint{member, notice.side_region, 0,
                          checksums_offset(notice.count, (notice.flags & wire::kWantStats) != 0)};
  if ((notice.flags & wire::kHasChecksums) != 0) extents.side.bytes += checksum_bytes(shape, rank);
  return extents;
}

// What can be judged of a notice alone, and to which vertex it comes; the rest is compared with the
// other children's.
Status Aggregator::check(const Job& job, std::uint16_t child, const wire::Notice& notice,
                         std::uint16_t& vertex) {
  if (notice.epoch != job.spec.epoch) return Status::kStaleEpoch;
  if (notice.group != 0) return Status::kUnsupported;
  if (notice.root >= job.spec.ranks) return Status::kInvalidArgument;
  const Operand operand = operand_of(notice);
  if (notice.part >= part_count(job.spec.plan, operand)) return Status::kInvalidArgument;
  const std::uint32_t tree = tree_of(job.spec.plan, operand, notice.part);
  vertex = job.vertex_in(tree);
  if (vertex == kNoVertex) return Status::kInvalidArgument;
  const bool partial = (notice.flags & wire::kPartial) != 0;
  if (partial != job.is_branch(child)) return Status::kInvalidArgument;
  if (partial && notice.cookie != tree) return Status::kInvalidArgument;
  return is_child(job, vertex, child) ? Status::kOk : Status::kInvalidArgument;
}

void Aggregator::announce(Member member, const wire::Notice& notice, Status admissible, Nanos now) {
  Job* job = job_of(member);
  if (job == nullptr) return;
  const std::uint16_t child = members_[member].rank;
  MemberState& state = job->members[child];
  ++state.counters.notices;
  TALLY_PROBE(announce, job->slot, child, notice.tag, notice.round, notice.part, notice.count);
  if (notice.kind == wire::Kind::kCancel) return cancel(*job, child, notice, now);
  const auto refuse = [&](Status status) {
    reply(member, notice, Verdict{.status = status, .culprit = blamed(*job, child)}, 0);
  };
  std::uint16_t vertex = kNoVertex;
  if (const Status status = check(*job, child, notice, vertex); status != Status::kOk) {
    return refuse(status);
  }
  if (state.outstanding >= state.credit) return refuse(Status::kNoCredit);
  const OperationKey key{job->spec.vertices[vertex].tree, notice.group, notice.tag, notice.round};
  Slot slot = job->table.find(key);
  if (slot == kNone) {
    if (job->table.closed(key)) return refuse(Status::kDuplicate);
    if (job->broken.status != Status::kOk && !leads_up(*job, vertex)) {
      return reply(member, notice, job->broken, 0);
    }
    slot = open(*job, key, vertex, notice, child, now);
  }
  if (!job->table.mark(slot, child)) return refuse(Status::kDuplicate);
  state.has_last = true;
  state.last_tag = notice.tag;
  state.last_round = notice.round;
  OperationRecord& operation = job->table[slot];
  if (operation.state != OperationRecord::State::kGathering) {
    return came_late(*job, slot, member, notice, now);
  }
  set_deadline(*job, slot, std::min(operation.deadline, deadline_of(notice, now)));
  park(*job, slot, child, notice, now);
  if (job->broken.status != Status::kOk) return fail(*job, slot, job->broken, now);
  const std::uint16_t rank = stand_in(*job, operation, child);
  const Verdict disagreement =
      compare(operation.shape, operation.first_rank, shape_of(notice, job->spec.ranks), rank);
  if (disagreement.status != Status::kOk) return fail(*job, slot, disagreement, now);
  if (admissible != Status::kOk) {
    return fail(*job, slot, Verdict{.status = admissible, .culprit = blamed(*job, child)}, now);
  }
  if (job->is_branch(child)) job->slots_of(child).region = notice.in_region;
  if (operation.announced == operation.children) become_ready(*job, slot, now);
}

// Its operation has failed, here or somewhere.
void Aggregator::came_late(Job& job, Slot slot, Member member, const wire::Notice& notice,
                           Nanos now) {
  OperationRecord& operation = job.table[slot];
  if (operation.state != OperationRecord::State::kFailed) {
    return park(job, slot, members_[member].rank, notice, now);  // the verdict is on its way
  }
  reply(member, notice, operation.verdict, now - operation.first_notice);
  if (operation.announced == operation.children) forget(job, slot);
}

void Aggregator::park(Job& job, Slot slot, std::uint16_t child, const wire::Notice& notice,
                      Nanos now) {
  OperationRecord& operation = job.table[slot];
  MemberState& state = job.members[child];
  ++state.outstanding;
  const bool wants_stats = (notice.flags & wire::kWantStats) != 0;
  operation.wants_stats |= wants_stats;
  operation.times.notice(child, operation.first_notice, now);
  job.table.park(operation,
                 Announcement{notice.in_offset, notice.out_offset, state.member, notice.cookie,
                              notice.in_region, notice.out_region, notice.side_region, child,
                              wants_stats, (notice.flags & wire::kHasChecksums) != 0, kNone});
}

Nanos Aggregator::deadline_of(const wire::Notice& notice, Nanos now) const {
  return now +
         (notice.deadline_ms != 0 ? notice.deadline_ms * kMillisecond : config_.default_deadline);
}

// Each rank's own time runs from its own notice; the first to run out decides for all.
void Aggregator::set_deadline(Job& job, Slot slot, Nanos deadline) {
  OperationRecord& operation = job.table[slot];
  if (deadline == operation.deadline) return;
  operation.deadline = deadline;
  job.deadlines.remove(slot);
  job.deadlines.insert(slot, deadline);
}

Slot Aggregator::open(Job& job, const OperationKey& key, std::uint16_t vertex,
                      const wire::Notice& notice, std::uint16_t child, Nanos now) {
  const auto children = static_cast<std::uint16_t>(job.spec.vertices[vertex].children());
  const Slot slot = job.table.create(key, children);
  OperationRecord& operation = job.table[slot];
  const Part part = cut(job.spec.plan, operand_of(notice), notice.part);
  operation.shape = shape_of(notice, job.spec.ranks);
  operation.first = operation.cursor = part.first;
  operation.end = part.first + part.count;
  operation.part = notice.part;
  operation.vertex = vertex;
  operation.priority = notice.priority;
  operation.first_rank = stand_in(job, operation, child);
  operation.first_notice = now;
  operation.deadline = deadline_of(notice, now);
  job.deadlines.insert(slot, operation.deadline);
  return slot;
}

void Aggregator::become_ready(Job& job, Slot slot, Nanos now) {
  OperationRecord& operation = job.table[slot];
  job.table.order_by_rank(operation);
  operation.state = OperationRecord::State::kActive;
  operation.was_ready = true;
  operation.age = age_++;
  TALLY_PROBE(ready, job.slot, operation.key.tag, operation.key.round, operation.part,
              operation.times.last_rank,
              operation.times.last_notice - operation.times.previous_notice);
  if (!job.vertex(operation).is_root()) return announce_up(job, slot, now);
  if (operation.cursor == operation.end) return conclude(job, slot, now);
  const std::uint64_t bytes = traffic(operation.shape, operation.end - operation.cursor);
  grain_.ready(job.slot, bytes);
  backlog_ += bytes;
  operation.stream = backlog_ >= config_.stream_bytes;
  scheduler_.add(job.slot, job.place(operation).cls, slot, operation.priority, operation.age);
}

}  // namespace tally::protocol
