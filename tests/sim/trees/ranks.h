// The ranks of a job in a simulation of trees: what they announce, their memory, and checks of the
// completions that they get.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "dataplane/protocol/aggregator.h"
#include "tests/sim/trees/plan.h"

namespace tally::sim::trees {

class World;

class Ranks {
 public:
  Ranks(World& world, const JobPlan& plan, std::size_t job);

  // Does one thing that some rank can do: announce or cancel. Returns false when there is nothing
  // to do.
  bool act();
  void take(std::uint16_t rank, std::uint32_t node, const wire::Completion& completion);
  // The rank's session with the node is over: the rank gets no messages from the node any more.
  void cut_off(std::uint16_t rank, std::uint32_t node);
  void lose(std::uint16_t rank) { ranks_[rank].lost = true; }
  bool lost(std::uint16_t rank) const { return ranks_[rank].lost; }
  // From now on the job's operations may fail because of the loss.
  void befallen() { befallen_ = true; }

  // The bytes that a node reads or stores for a tile, while the node may access them.
  std::byte* memory(std::uint16_t rank, const protocol::Endpoint& where,
                    const protocol::Tile& tile);
  bool done() const;
  std::string unfinished() const;
  // Parts that failed.
  std::uint64_t failures() const { return failures_; }

  // The node that gets a rank's notices of a tree.
  std::uint32_t parent_of(std::uint32_t tree, std::uint16_t rank) const;

 private:
  struct Part {
    protocol::Part range;
    bool posted = false;
    bool ended = false;
  };
  struct Posted {
    bool posted = false;
    bool skipped = false;
    bool cancelled = false;
    std::vector<Part> parts;
    std::vector<std::byte> given;  // a copy of the input, because `in` may be overwritten
    std::vector<std::byte> in, out, stats;
    wire::Notice notice;
    bool ended() const;
  };
  struct Rank {
    bool lost = false;
    std::vector<std::size_t> order;  // order of announcing
    std::vector<Posted> ops;
  };

  protocol::Shape shape_of(std::size_t op, std::uint16_t rank) const;
  bool may_post(const Rank& rank, std::size_t op) const;
  bool post_one(std::uint16_t rank);
  void post(std::uint16_t rank, std::size_t op);
  void prepare(std::uint16_t rank, std::size_t op);
  void take_back(std::uint16_t rank, std::size_t op, std::uint16_t account);
  bool is_cut_off(std::uint32_t tree, std::uint16_t rank) const;
  void judge(std::uint16_t rank, std::size_t op, std::uint16_t part,
             const wire::Completion& completion);
  bool deserved(std::size_t op, const wire::Completion& completion) const;
  void check_placed(std::size_t op, std::uint16_t part, const protocol::Part& range);
  const std::vector<std::byte>& expected(std::size_t op, const protocol::Part& range);
  void check_stats(std::size_t op, const protocol::Part& range, std::uint16_t rank);
  std::string title(std::size_t op, std::uint16_t part) const;

  World& world_;
  const JobPlan& plan_;
  std::size_t job_;
  bool befallen_ = false;
  std::uint64_t failures_ = 0;
  std::vector<Rank> ranks_;
  std::map<std::pair<std::size_t, std::uint16_t>, std::optional<wire::Completion>> judged_;
  std::map<std::pair<std::size_t, std::uint64_t>, std::vector<std::byte>> expected_;
};

}  // namespace tally::sim::trees
