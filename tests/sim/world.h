// Runs a schedule: a node of several shards over faulty loopback transports, its jobs, and a clock
// that jumps when no other event is left. One thread, no system clock, no randomness except the
// seed's.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "dataplane/engine/shard.h"
#include "tests/sim/judge.h"
#include "tests/support/transport/faulty.h"

namespace tally::sim {

// Memory that one schedule leaves to the next.
struct Memory {
  Arena arena;
  std::vector<std::vector<testing::Expected>> expected;  // by job
};

class World {
 public:
  World(const Schedule& schedule, Memory& memory, const Trace& trace);

  // Runs until everything has ended. Throws Violation or ContractViolation at a broken invariant.
  void run();

  std::uint64_t rounds() const { return rounds_; }
  // The number of pulls that brought damaged bytes.
  std::uint64_t corrupted() const;

 private:
  struct Node {
    Node(World& world, std::uint32_t shard);
    transport::Loopback loopback;
    transport::Faulty faulty;
    engine::Shard shard;
    std::uint64_t turns = 0;
  };

  struct Job {
    const JobPlan* plan = nullptr;
    std::vector<Worker> workers;
    std::unique_ptr<Judge> judge;
    std::uint64_t corrupted = 0;
  };

  // The events of a worker. An event has a time and a shard.
  enum class What : std::uint8_t { kDie, kFence, kStop, kResume, kCut, kGone };
  struct Event {
    Nanos when = 0;
    What what = What::kDie;
    std::size_t job = 0;
    std::uint16_t rank = 0;
    std::uint32_t shard = 0;
  };

  void admit(std::size_t job, Memory& memory, transport::Peer& next_peer);
  void set_rates(const JobPlan& plan, std::uint16_t rank, transport::Peer peer);
  void plan_troubles(std::size_t job);
  transport::FaultyConfig faulty_config(std::uint32_t shard);
  bool spares(const transport::Range& range);
  void check_damage(std::size_t job) const;
  void observe(std::uint32_t shard, transport::FaultEvent event, transport::Peer peer,
               const RingEntry* message);
  bool round();
  void judge_finished(Job& job, Worker& worker);
  bool work(Job& job, Worker& worker);
  bool happen();
  void happen(const Event& event);
  void at_every_shard(What what, std::size_t job, std::uint16_t rank);
  void lose(std::size_t job, std::uint16_t rank);
  void give_up(std::size_t job, Worker& worker);
  bool jump();
  bool done() const;
  void check_end();
  void dismiss();
  std::string stuck() const;

  const Schedule& schedule_;
  const Trace& trace_;
  Random random_;
  Nanos now_ = 0;
  std::uint64_t rounds_ = 0;
  int quiet_ = 0;  // rounds without progress
  protocol::SmallOperations small_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by shard
  std::vector<transport::Loopback*> loopbacks_;
  std::vector<Job> jobs_;
  std::vector<std::pair<std::size_t, std::uint16_t>> by_peer_;  // job and rank
  std::vector<Event> events_;
  std::map<std::tuple<transport::Peer, std::uint32_t, std::uint64_t>, int> struck_;
};

}  // namespace tally::sim
