#include "perf/limits/roce/node.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "base/clock.h"
#include "perf/limits/roce/must.h"

namespace tally::perf {
namespace {

constexpr Nanos kRound = 60 * kMillisecond;
constexpr Nanos kTimeout = 10 * kSecond;
constexpr Nanos kQuiet = 2 * kMillisecond;
constexpr std::uint32_t kCredit = Announcements::kTags;
constexpr std::uint16_t kSourcePort = 0xc000;  // of the loops without connections

}  // namespace

Node::Node(End end, Workers& workers, WorkersThread& others, const Setup& setup)
    : setup_(setup),
      others_(others),
      port_(end.port),
      link_(*end.link),
      tiles_(setup.memory.data() + kOperationBytes, kTileBytes) {
  const auto result = setup.memory.first(kOperationBytes);
  fill(result);
  roce::TransportOptions options;
  options.address = setup.address;
  options.mtu = setup.mtu;
  options.kept_frames = setup.kept_frames;
  options.landing_bytes = std::size_t{2} * kMostOperations * kOperationBytes;
  options.tiles = setup.memory;
  transport_ = std::make_unique<roce::RoceTransport>(std::move(end.link), options);
  loop_ = std::make_unique<NodeLoop>(*transport_, result);
  for (std::uint32_t i = 0; i < kMostConnections; ++i) {
    workers.connect(must(transport_->attach(i, workers.address(i), kCredit)));
    transport_->add_region(i, kSourceRegion, workers.source_region());
    transport_->add_region(i, kTargetRegion, workers.target_region());
  }
  make_shard();
}

// The first workers are the ranks of a job.
void Node::make_shard() {
  engine::ShardConfig config;
  config.protocol.plan = protocol::even_partition(1, 1 << 20);
  config.kernels = summation::kernels(summation::best_isa());
  config.max_ranks = kRanks;
  config.memory = &tiles_;
  shard_ = std::make_unique<engine::Shard>(config, *transport_);
  shard_->expect_children(kRanks);
  shard_->protocol().add_job(0, {.epoch = kEpoch, .ranks = kRanks, .credit = kCredit});
  for (std::uint16_t rank = 0; rank < kRanks; ++rank) shard_->protocol().join(0, rank, rank);
}

// -- checks --------------------------------------------------------------------------------------

void Node::check() {
  const auto poll = [&] { loop_->poll(); };
  others_.command(Mode::kServe, poll, true);
  check_loop(NodeLoop::Work::kReads);
  check_loop(NodeLoop::Work::kWrites);
  others_.command(Mode::kServe, poll);
  if (!is_filled(setup_.target)) fail("what was written is wrong");
  check_shard(Mode::kReduce, kRanks);
  check_shard(Mode::kBroadcast, 1);
  open_stateless();
}

void Node::check_loop(NodeLoop::Work work) {
  loop_->begin(work, kMostConnections, 1);
  const Nanos end = monotonic_now() + kTimeout;
  while (loop_->done() < 4 * kMostConnections) {
    loop_->poll();
    if (monotonic_now() > end) fail("the port moves nothing");
  }
  loop_->end();
  settle([&] { return loop_->poll() > 0 || !loop_->is_idle(); });
  if (!loop_->is_right()) fail("a sum is wrong");
}

// times: of the contribution of a rank, in the result.
void Node::check_shard(Mode mode, float times) {
  const auto turn = [&] { return shard_->turn(monotonic_now()); };
  constexpr std::uint64_t kEnough = 16 * kRanks * kRegionBytes;
  const Nanos end = monotonic_now() + kTimeout;
  const std::uint64_t before = link_.bytes();
  others_.command(mode, turn, true);
  while (link_.bytes() - before < kEnough) {
    turn();
    if (monotonic_now() > end) fail("the shard moves nothing");
  }
  others_.command(Mode::kServe, turn);
  settle_shard();
  if (!is_filled(setup_.target, times)) fail("a result of the shard is wrong");
}

void Node::open_stateless() {
  const auto found = link_.route_to(setup_.worker, monotonic_now());
  if (!found) fail("the workers' MAC address is not known");
  roce::Route route = *found;
  route.source = setup_.address;
  route.target = setup_.worker;
  route.source_port = kSourcePort;
  route.traffic_class = roce::kEcnCapable;
  stateless_ =
      must(Stateless::open(*port_, route, setup_.mtu, setup_.memory.first(kOperationBytes)));
}

// -- rounds --------------------------------------------------------------------------------------

void Node::measure(const std::string& variant) {
  const std::string kind = variant.substr(0, variant.find(':'));
  if (kind == "read") return measure_loop(variant, NodeLoop::Work::kReads);
  if (kind == "write") return measure_loop(variant, NodeLoop::Work::kWrites);
  if (kind == "shard-reduce") return measure_shard(variant, Mode::kReduce);
  if (kind == "shard-broadcast") return measure_shard(variant, Mode::kBroadcast);
  const std::map<std::string, std::function<Moved()>> loops = {
      {"read-stateless", [&] { return stateless_->read(); }},
      {"rxonly", [&] { return stateless_->receive(); }},
      {"write-stateless", [&] { return stateless_->write(); }},
      {"txonly", [&] { return stateless_->send(); }},
      {"icrc", [&] { return stateless_->icrc(); }},
  };
  const auto found = loops.find(kind);
  if (found == loops.end()) fail("there is no variant " + variant);
  measure_stateless(variant, found->second, kind.starts_with("r") ? Mode::kFlood : Mode::kServe);
}

void Node::measure_loop(const std::string& variant, NodeLoop::Work work) {
  std::uint32_t connections = 4;
  std::uint32_t depth = 2;
  std::sscanf(variant.c_str(), "%*[^:]:%ux%u", &connections, &depth);
  if (connections < 1 || connections > kMostConnections || depth < 1 ||
      connections * depth > kMostOperations) {
    fail(fmt::format("{}: give 1 to {} connections and at most {} operations in all", variant,
                     kMostConnections, kMostOperations));
  }
  const auto poll = [&] { return loop_->poll() > 0; };
  loop_->begin(work, connections, depth);
  others_.command(Mode::kServe, poll);
  run([&] { return moved_by(poll); });
  others_.command(Mode::kServe, poll);
  loop_->end();
  settle([&] { return poll() || !loop_->is_idle(); });
  if (!loop_->is_right()) {
    fail(fmt::format("the sum of {} is wrong: {} operations of {} have failed: {}", variant,
                     loop_->failed(), loop_->done(), transport_->why_lost(0)));
  }
  print(variant);
}

void Node::measure_shard(const std::string& variant, Mode mode) {
  const auto turn = [&] { return shard_->turn(monotonic_now()); };
  others_.command(mode, turn);
  run([&] { return moved_by(turn); });
  others_.command(Mode::kServe, turn);
  settle_shard();
  others_.command(Mode::kServe, turn);
  if (others_.failed() > 0) fail("an operation of " + variant + " has failed");
  print(variant);
}

void Node::measure_stateless(const std::string& variant, const std::function<Moved()>& loop,
                             Mode mode) {
  stateless_->begin();
  others_.command(mode, loop);
  run(loop);
  others_.command(Mode::kServe, loop);
  const bool sends = variant == "write-stateless" || variant == "txonly";
  if (sends && others_.received_bytes() == 0) fail("no frame of " + variant + " is right");
  if (!stateless_->is_right()) fail("a sum of " + variant + " is wrong");
  for (Nanos quiet_since = monotonic_now(); monotonic_now() - quiet_since < kQuiet;) {
    if (stateless_->receive().found) quiet_since = monotonic_now();
  }
  print(variant);
}

// turn: whether it did something.
Moved Node::moved_by(const std::function<bool()>& turn) {
  const std::uint64_t packets = link_.packets();
  const std::uint64_t bytes = link_.bytes();
  const bool has_worked = turn();
  const std::uint64_t moved = link_.packets() - packets;
  return {moved, link_.bytes() - bytes, moved > 0 || has_worked};
}

// Polls until `poll` has found nothing for a while, and no packet has come or gone.
void Node::settle(const std::function<bool()>& poll) {
  const Nanos begin = monotonic_now();
  for (Nanos quiet_since = begin;;) {
    const bool found = moved_by(poll).found;
    const Nanos now = monotonic_now();
    if (found) quiet_since = now;  // also where this thread has paused since
    if (now - quiet_since >= kQuiet) return;
    if (now - begin > kTimeout) fail("operations do not end");
  }
}

void Node::settle_shard() {
  settle([&] {
    return shard_->turn(monotonic_now()) || shard_->tiles_in_flight() > 0 ||
           others_.announced() > 0;
  });
}

void Node::run(const std::function<Moved()>& poll) {
  meter_.reset();
  received_ = link_.received_bytes();
  sent_ = link_.sent_bytes();
  repaired_ = repairs();
  const std::uint64_t cycles = read_cycles();
  const Nanos begin = monotonic_now();
  do {
    for (int i = 0; i < 16; ++i) meter_.measure(poll);
  } while (monotonic_now() - begin < kRound);
  seconds_ = static_cast<double>(monotonic_now() - begin) / kSecond;
  all_cycles_ = read_cycles() - cycles;
  received_ = link_.received_bytes() - received_;
  sent_ = link_.sent_bytes() - sent_;
  repaired_ = repairs() - repaired_;
}

std::uint64_t Node::repairs() const {
  const roce::Counters counters = transport_->counters();
  return counters.again + counters.reads_repaired;
}

void Node::print(const std::string& variant) const {
  const Cost& cost = meter_.cost();
  const Cost& workers = others_.last();
  fmt::print(
      R"({{"variant": "{}", "packets": {}, "bytes": {}, "polls": {}, "cycles": {}, "cut": {}, )"
      R"("all_cycles": {}, "seconds": {:.6f}, "received": {}, "sent": {}, "repairs": {}, )"
      R"("worker_bytes": {}, "worker_cycles": {}}})"
      "\n",
      variant, cost.packets, cost.bytes, cost.polls, cost.cycles, cost.cut, all_cycles_, seconds_,
      received_, sent_, repaired_, workers.bytes, workers.cycles);
  std::fflush(stdout);
}

}  // namespace tally::perf
