// A machine's NICs that carry workers' bytes: *rails*. Each has shards of its own, whose endpoints
// are bound to its address. Rails are numbered alike on all machines: rail N of one reaches rail N
// of the others.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tally::control {

inline constexpr std::size_t kMaxRails = 16;

struct Rail {
  std::string address;      // of the NIC, numeric
  std::string tcp{};        // where clients connect by it; empty: nowhere
  std::uint64_t speed = 0;  // bytes per second, each way; 0: unknown
  std::uint32_t shards =
      0;  // that it has; 0: it was not there when the node started, and is not used
  bool up = true;

  friend bool operator==(const Rail&, const Rail&) = default;
};

// A node's shards go in turn to the rails that are up when it starts; the others get none.
void deal_shards(std::vector<Rail>& rails, std::uint32_t shards);
// Of a shard that has been dealt.
std::uint32_t rail_of(std::uint32_t shard, const std::vector<Rail>& rails);

// Those with shards that are up; where none is, all with shards: they still serve this host. In
// order.
std::vector<std::uint32_t> rails_in_use(const std::vector<Rail>& rails);
// Of the rails in use together. Unknown speeds are the mean of the known ones; 0: none is known.
std::uint64_t speed_of(const std::vector<Rail>& rails);
// That can serve a job: `shards` at most, of the rails in use. Without rails, all.
std::uint32_t usable_shards(const std::vector<Rail>& rails, std::uint32_t shards);

// A tree that is rooted at a shard of a rail.
struct RailTree {
  std::uint32_t rail = 0;
  std::uint32_t weight = 0;
};
// `share`, in so many trees: dealt to the rails in use (where there are more rails than trees, to
// the fastest), in proportion to the rails' speeds, evenly over the trees of each. Without rails
// all are of rail 0. Precondition: 1 <= trees <= usable_shards().
std::vector<RailTree> over_rails(const std::vector<Rail>& rails, std::uint32_t trees,
                                 std::uint32_t share);

nlohmann::json to_json(const std::vector<Rail>& rails);
// Parsing is validating: none where it is not a list of rails.
std::optional<std::vector<Rail>> parse_rails(const nlohmann::json& rails);

}  // namespace tally::control
