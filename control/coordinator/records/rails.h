// *Rails*: a machine's NICs that carry workers' bytes. Each rail has shards of its own, whose
// endpoints bind to its address. All machines number rails alike: rail N of one reaches rail N of
// the others.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tally::control {

inline constexpr std::size_t kMaxRails = 16;

struct Rail {
  std::string address;       // the NIC's numeric address
  std::string tcp{};         // where clients connect over it; empty: nowhere
  std::uint64_t speed = 0;   // bytes per second, each way; 0 means unknown
  std::uint32_t shards = 0;  // its shards; 0 when it was missing at the node's start, and is unused
  bool up = true;

  friend bool operator==(const Rail&, const Rail&) = default;
};

// Deals a node's shards in turn to the rails that are up at its start; other rails get none.
void deal_shards(std::vector<Rail>& rails, std::uint32_t shards);
// The rail of a shard. Precondition: deal_shards() has run.
std::uint32_t rail_of(std::uint32_t shard, const std::vector<Rail>& rails);

// The rails with shards that are up, ascending. When none is up, all with shards: they still serve
// this host.
std::vector<std::uint32_t> rails_in_use(const std::vector<Rail>& rails);
// Bytes per second of the rails in use together. An unknown speed counts as the mean of the known
// ones; 0 when none is known.
std::uint64_t speed_of(const std::vector<Rail>& rails);
// How many shards can serve a job: those of the rails in use, and at most `shards`. Without rails,
// `shards`.
std::uint32_t usable_shards(const std::vector<Rail>& rails, std::uint32_t shards);

// A tree that is rooted at a shard of a rail.
struct RailTree {
  std::uint32_t rail = 0;
  std::uint32_t weight = 0;
};
// Divides `share` among that many trees. The rails in use get them in proportion to their speeds;
// with more rails than trees, only the fastest get one. The trees of a rail get equal weights.
// Without rails all trees are of rail 0. Precondition: 1 <= trees <= usable_shards().
std::vector<RailTree> over_rails(const std::vector<Rail>& rails, std::uint32_t trees,
                                 std::uint32_t share);

nlohmann::json to_json(const std::vector<Rail>& rails);
// Parses and validates; nullopt when the value is no list of rails.
std::optional<std::vector<Rail>> parse_rails(const nlohmann::json& rails);

}  // namespace tally::control
