#include "tests/sim/world.h"

#include <algorithm>

namespace tally::sim {
namespace {

using transport::FaultEvent;

// Without progress for so many rounds, nothing is under way but time: every delay has passed.
constexpr int kQuietRounds = 60;
// From here on everybody takes part in every round.
constexpr int kWaking = 20;
// A schedule that takes longer than this hangs.
constexpr std::uint64_t kMostRounds = 50'000;

engine::ShardConfig shard_config(const Schedule& schedule, std::uint32_t shard,
                                 protocol::SmallOperations& small) {
  engine::ShardConfig config;
  config.protocol.plan = schedule.plan;
  config.protocol.shard = shard;
  config.protocol.window_bytes = schedule.window_bytes;
  config.protocol.tile_bytes = schedule.tile_bytes;
  config.protocol.tiles = schedule.tiles;
  config.protocol.small = &small;
  // In every third schedule what is more than a few blocks goes past the caches.
  if (schedule.seed % 3 == 0) config.protocol.stream_bytes = 100'000;
  config.kernels = summation::kernels(summation::best_isa());
  config.crc32c = Crc32c::open().value();
  config.max_ranks = 20;
  return config;
}

// Where checksums lie, of every tag.
bool is_side(const transport::Range& range) {
  return range.region % 3 == 0;
}

}  // namespace

World::Node::Node(World& world, std::uint32_t index)
    : loopback(world.schedule_.loopback),
      faulty(loopback, world.faulty_config(index)),
      shard(shard_config(world.schedule_, index, world.small_), faulty) {}

transport::FaultyConfig World::faulty_config(std::uint32_t shard) {
  transport::FaultyConfig config;
  config.seed = schedule_.seed * 4 + shard;
  config.rates.delay_notice = schedule_.delay;
  config.rates.delay_pull = schedule_.delay;
  config.rates.delay_push = schedule_.delay;
  config.spares = [this](const transport::Range& range) { return spares(range); };
  return config;
}

// A tile's bytes and their checksums together are not damaged oftener than a shard tries again.
bool World::spares(const transport::Range& range) {
  const bool data_alone = schedule_.seed % 2 == 0;
  const int most = !is_side(range) ? 2 : data_alone ? 0 : 1;
  int& times = struck_[{range.peer, range.region, range.offset}];
  if (times == most) return true;
  ++times;
  return false;
}

World::World(const Schedule& schedule, Memory& memory, const Trace& trace)
    : schedule_(schedule), trace_(trace), random_(schedule.seed ^ 0x5ca1ab1e) {
  for (std::uint32_t shard = 0; shard < schedule.shards; ++shard) {
    nodes_.push_back(std::make_unique<Node>(*this, shard));
    loopbacks_.push_back(&nodes_.back()->loopback);
    nodes_.back()->faulty.observe(
        [this, shard](FaultEvent event, transport::Peer peer, const RingEntry* message) {
          observe(shard, event, peer, message);
        });
  }
  memory.arena.reset();
  memory.expected.resize(std::max(memory.expected.size(), schedule.jobs.size()));
  jobs_.resize(schedule.jobs.size());
  transport::Peer next_peer = 0;
  for (std::size_t job = 0; job < jobs_.size(); ++job) admit(job, memory, next_peer);
}

void World::admit(std::size_t index, Memory& memory, transport::Peer& next_peer) {
  const JobPlan& plan = schedule_.jobs[index];
  Job& job = jobs_[index];
  job.plan = &plan;
  const auto job_id = static_cast<protocol::JobId>(index);
  for (auto& node : nodes_) {
    node->shard.protocol().add_job(
        job_id,
        {.epoch = plan.epoch, .ranks = plan.ranks, .weight = plan.weight, .credit = plan.credit});
  }
  job.workers.reserve(plan.ranks);
  for (std::uint16_t rank = 0; rank < plan.ranks; ++rank) {
    const transport::Peer peer = next_peer++;
    by_peer_.emplace_back(index, rank);
    for (auto& node : nodes_) {
      node->loopback.connect(peer);
      node->shard.protocol().join(job_id, rank, peer);
    }
    set_rates(plan, rank, peer);
    job.workers.emplace_back(Surroundings{schedule_, plan, loopbacks_, random_, trace_}, rank, peer,
                             memory.arena);
  }
  auto& expected = memory.expected[index];
  expected.resize(std::max(expected.size(), plan.ops.size()));
  job.judge = std::make_unique<Judge>(schedule_, plan, job.workers, expected, trace_);
  plan_troubles(index);
}

void World::set_rates(const JobPlan& plan, std::uint16_t rank, transport::Peer peer) {
  transport::FaultRates rates = faulty_config(0).rates;
  rates.corrupt_pull = plan.corruption;
  if (plan.has(Trouble::kTransfer)) rates.fail_pull = rates.fail_push = 0.05;
  if (plan.has(Trouble::kDuplicate)) rates.duplicate_notice = 0.2;
  if (rank == plan.victim) {
    if (plan.has(Trouble::kGarbage)) rates.garbage_notice = 0.1;
    if (plan.has(Trouble::kFlip)) rates.flip_notice = 0.3;
    if (plan.has(Trouble::kDeathOnUse)) rates.drop_peer = 0.05;
  }
  for (auto& node : nodes_) node->faulty.set_rates(peer, rates);
}

void World::plan_troubles(std::size_t job) {
  const JobPlan& plan = *jobs_[job].plan;
  const auto add = [&](What what, Nanos when, std::uint32_t shard) {
    events_.push_back({when, what, job, plan.victim, shard});
  };
  if (plan.has(Trouble::kDeath)) add(What::kDie, plan.when, 0);
  if (plan.has(Trouble::kFence)) add(What::kFence, plan.when, 0);
  if (!plan.has(Trouble::kStop)) return;
  for (std::uint32_t shard = 0; shard < nodes_.size(); ++shard) {
    if (random_.chance(0.3)) continue;
    add(What::kStop, plan.when, shard);
    add(What::kResume, plan.until, shard);
  }
  if (plan.for_good) add(What::kDie, plan.until, 0);
}

// -- what the transports tell
// ----------------------------------------------------------------------

void World::observe(std::uint32_t shard, FaultEvent event, transport::Peer peer,
                    const RingEntry* message) {
  const auto [index, rank] = by_peer_[peer];
  Job& job = jobs_[index];
  const std::uint64_t turn = nodes_[shard]->turns;
  wire::Notice notice;
  wire::Completion completion;
  if (trace_.on()) {
    trace_.write(now_, "shard {}: {}, job {} rank {}", shard, name(event), job.plan->epoch, rank);
  }
  switch (event) {
    case FaultEvent::kNotice:
      if (wire::parse(*message, notice) != Status::kOk) break;
      job.judge->notice_delivered(shard, rank, notice, turn);
      break;
    case FaultEvent::kCompletion:
      if (wire::parse(*message, completion) != Status::kOk) violated("a completion is malformed");
      if (trace_.on()) {
        trace_.write(now_, "shard {}: tag {} round {} part {}: {}", shard, completion.tag,
                     completion.round, completion.part, status_name(completion.status));
      }
      job.judge->completion_sent(shard, rank, completion, turn);
      break;
    case FaultEvent::kCorrupted:
      ++job.corrupted;
      break;
    case FaultEvent::kGarbled:
    case FaultEvent::kDropped:
    case FaultEvent::kLost:
      lose(index, rank);
      break;
    default:
      break;
  }
}

// A connection that breaks takes the whole session with it; the shards learn of it one by one.
void World::lose(std::size_t job, std::uint16_t rank) {
  Worker& worker = jobs_[job].workers[rank];
  if (worker.presence() != Presence::kHere) return;
  worker.lose(now_);
  judge_finished(jobs_[job], worker);
  at_every_shard(What::kCut, job, rank);
}

void World::at_every_shard(What what, std::size_t job, std::uint16_t rank) {
  for (std::uint32_t shard = 0; shard < nodes_.size(); ++shard) {
    const auto later = static_cast<Nanos>(random_.below(kMillisecond));
    events_.push_back({now_ + later, what, job, rank, shard});
  }
}

void World::happen(const Event& event) {
  Worker& worker = jobs_[event.job].workers[event.rank];
  Node& node = *nodes_[event.shard];
  switch (event.what) {
    case What::kDie:
      return lose(event.job, event.rank);
    case What::kFence:
      if (worker.presence() == Presence::kHere) give_up(event.job, worker);
      return;
    case What::kStop:
      return node.faulty.stop(worker.peer());
    case What::kResume:
      return node.faulty.resume(worker.peer());
    case What::kCut:
      return node.faulty.drop(worker.peer());
    case What::kGone:
      return node.shard.protocol().gone(worker.peer(), Status::kPeerLeft, now_);
  }
}

void World::give_up(std::size_t job, Worker& worker) {
  worker.fence(now_);
  lose(job, worker.rank());
}

bool World::happen() {
  bool happened = false;
  for (std::size_t i = 0; i < events_.size();) {
    if (events_[i].when > now_) {
      ++i;
      continue;
    }
    const Event event = events_[i];
    events_[i] = events_.back();
    events_.pop_back();
    happen(event);
    happened = true;
  }
  return happened;
}

// -- the loop
// --------------------------------------------------------------------------------------

void World::judge_finished(Job& job, Worker& worker) {
  client::Finished finished;
  while (worker.take_finished(finished)) job.judge->finished(worker, finished, now_);
}

bool World::work(Job& job, Worker& worker) {
  if (worker.presence() != Presence::kHere) return false;
  if (quiet_ < kWaking && !random_.chance(schedule_.activity)) return false;
  const auto index = static_cast<std::size_t>(&job - jobs_.data());
  bool worked = worker.take(now_);
  judge_finished(job, worker);
  worked |= worker.act(now_);
  if (worker.wants_to_leave()) {
    worker.leave(now_);
    at_every_shard(What::kGone, index, worker.rank());
  } else if (worker.wakes(now_) <= now_) {  // its timeout with the node has ended
    give_up(index, worker);
    worked = true;
  }
  return worked;
}

// Everybody once, at most; true when something happened.
bool World::round() {
  ++rounds_;
  now_ += static_cast<Nanos>(random_.between(10, 120)) * kMicrosecond;
  bool progress = happen();
  for (auto& node : nodes_) {
    if (quiet_ < kWaking && nodes_.size() > 1 && random_.chance(0.3)) continue;
    ++node->turns;
    progress |= node->shard.turn(now_);
  }
  for (Job& job : jobs_) {
    for (Worker& worker : job.workers) progress |= work(job, worker);
  }
  return progress;
}

// To the next time at which something is due; false when nothing is.
bool World::jump() {
  Nanos next = kForever;
  for (const Event& event : events_) next = std::min(next, event.when);
  for (const auto& node : nodes_) next = std::min(next, node->shard.protocol().next_deadline());
  for (const Job& job : jobs_) {
    for (const Worker& worker : job.workers) next = std::min(next, worker.wakes(now_));
  }
  if (next == kForever) return false;
  trace_.write(now_, "-- nothing until {:.3f} us", static_cast<double>(next) / 1000);
  now_ = std::max(now_, next);
  return true;
}

bool World::done() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [](const Job& job) {
    return std::all_of(job.workers.begin(), job.workers.end(),
                       [](const Worker& worker) { return worker.done(); });
  });
}

std::string World::stuck() const {
  std::string text = "it hangs:";
  for (const Job& job : jobs_) {
    for (const Worker& worker : job.workers) {
      if (!worker.done()) text += fmt::format(" job {} rank {}", job.plan->epoch, worker.rank());
    }
  }
  return text;
}

void World::run() {
  trace_.write(now_, "{}", describe(schedule_));
  while (true) {
    if (rounds_ > kMostRounds) violated("{}", stuck());
    quiet_ = round() ? 0 : quiet_ + 1;
    if (quiet_ < kQuietRounds) continue;
    if (!jump()) break;
    quiet_ = 0;
  }
  if (!done()) violated("{}", stuck());
  check_end();
  dismiss();
}

void World::check_end() {
  for (auto& node : nodes_) {
    if (node->shard.tiles_in_flight() != 0) violated("a tile is still in flight");
    if (node->loopback.views_held() != 0) violated("a view is not released");
    if (node->faulty.held() + node->loopback.pulls_outstanding() +
            node->loopback.pushes_outstanding() !=
        0) {
      violated("a request is not answered");
    }
  }
  for (std::size_t index = 0; index < jobs_.size(); ++index) {
    Job& job = jobs_[index];
    job.judge->check_end();
    check_damage(index);
    for (Worker& worker : job.workers) {
      worker.check_fence();
      if (!job.plan->has(Trouble::kFlip)) worker.check_all_quiet();
      if (!job.plan->healthy()) continue;
      worker.check_credit();
      for (auto& node : nodes_) {
        const auto job_id = static_cast<protocol::JobId>(index);
        if (node->shard.protocol().inspect().operations(job_id) != 0)
          violated("an operation stays behind");
      }
    }
  }
}

// What was damaged was noticed; all of it where nothing ended before it was looked at. Bytes and
// their checksums that are damaged together count once.
void World::check_damage(std::size_t index) const {
  const Job& job = jobs_[index];
  std::uint64_t damaged = 0;
  for (const auto& node : nodes_) {
    const auto job_id = static_cast<protocol::JobId>(index);
    for (const auto& rank : node->shard.protocol().inspect().rank_counters(job_id))
      damaged += rank.damaged;
  }
  const bool data_alone = schedule_.seed % 2 == 0;
  const std::uint64_t least = !job.plan->healthy() ? 0
                              : data_alone         ? job.corrupted
                                                   : (job.corrupted + 1) / 2;
  if (job.plan->checksums == 0 || job.plan->has(Trouble::kFlip) ||
      (damaged >= least && damaged <= job.corrupted))
    return;
  violated("job {}: {} pulls were damaged, {} inputs found to be", job.plan->epoch, job.corrupted,
           damaged);
}

std::uint64_t World::corrupted() const {
  std::uint64_t all = 0;
  for (const Job& job : jobs_) all += job.corrupted;
  return all;
}

// All sessions are closed and the jobs removed, as when they end.
void World::dismiss() {
  for (std::size_t index = 0; index < jobs_.size(); ++index) {
    const auto job_id = static_cast<protocol::JobId>(index);
    for (auto& node : nodes_) {
      for (const Worker& worker : jobs_[index].workers) {
        node->shard.protocol().gone(worker.peer(), Status::kPeerLeft, now_);
      }
      if (node->shard.protocol().inspect().busy(job_id)) violated("a job that ended is busy");
      node->shard.remove_job(job_id);
    }
  }
  for (auto& node : nodes_) {
    if (node->shard.protocol().next_deadline() != kForever) violated("a deadline stays behind");
    node->shard.turn(now_ + kSecond);
  }
}

}  // namespace tally::sim
