// For tests: the shard of one part of a version. A protocol::Aggregator decides; the test moves the
// bytes of its tiles in steps of the model: all pulls, then each push.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/protocol/aggregator.h"

namespace tally::traces {

// What a contribution holds. Rounds count from 0.
float element_of(std::uint16_t rank, std::uint32_t round, std::uint64_t index);
// What a result holds.
float sum_of(std::uint16_t ranks, std::uint32_t round, std::uint64_t index);

// A completion on its way to a rank. The result of an eager operation travels with it.
struct Delivery {
  wire::Completion completion;
  std::vector<std::byte> result{};
  std::uint32_t region = 0;  // of the result
  std::uint64_t offset = 0;
};

class TracedShard {
 public:
  // Returns the first byte of a rank's region. Throws Disagreement when the rank has fenced the
  // shard off.
  using Memory = std::function<std::byte*(std::uint16_t rank, std::uint32_t region)>;

  TracedShard(std::uint32_t epoch, std::uint32_t part, std::uint16_t ranks,
              const protocol::Partition& partition, Memory memory);

  // A notice arrives. A cancel is on its way until fail(). `contribution`: as of
  // Connection::send().
  void announce(std::uint16_t rank, const wire::Notice& notice,
                std::span<const std::byte> contribution);
  // Reads all contributions. Returns the round, and whether all contributions were of that round.
  // None: the shard has no work.
  std::optional<std::pair<std::uint32_t, bool>> pull();
  // Stores the result at the rank. The completions follow the last one. False: the rank waits for
  // no result.
  bool push(std::uint16_t rank);
  // Pulls, and sends each result with its completion.
  std::optional<std::pair<std::uint32_t, bool>> conclude();
  // Ends the operation of that round with an error: by a cancel that is on its way, or because a
  // transfer has failed, or at its deadline.
  void fail(std::uint32_t round);
  // The node sees that this rank's session has ended.
  void lose(std::uint16_t rank);

  // Takes the completion of that round, or the one that reports a lost rank. None: there is none.
  std::optional<Delivery> take(std::uint16_t rank, std::uint32_t round);
  std::optional<Delivery> take_loss(std::uint16_t rank);
  void forget(std::uint16_t rank) { deliveries_[rank].clear(); }

 private:
  struct Announced {
    wire::Notice notice;
    std::vector<std::byte> contribution;  // that came with the notice
  };

  const std::byte* source(const protocol::Endpoint& endpoint) const;
  void end_tile(Status status);
  void collect();

  protocol::Aggregator aggregator_;
  std::uint16_t ranks_;
  Memory memory_;
  Nanos now_ = kSecond;
  std::vector<std::map<std::uint32_t, Announced>> announced_;  // by rank and cookie
  std::vector<std::vector<wire::Notice>> cancels_;             // by rank: on their way
  std::vector<std::deque<Delivery>> deliveries_;               // by rank
  std::optional<protocol::Tile> tile_;                         // in flight
  std::vector<float> sum_;                                     // of the tile
  std::vector<bool> pushed_;                                   // by rank
};

}  // namespace tally::traces
