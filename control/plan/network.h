// The machines and what joins them: what a plan is made for. Plain values, no threads, no clocks.
//
// Speeds are bytes per second, measured or declared. Machines are workers (they own a gradient and
// need the result) and helpers (they may sum, replicate or relay); switches forward only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tally::plan {

using VertexId = std::uint32_t;

inline constexpr std::size_t kMaxVertices = 4096;
inline constexpr std::size_t kMaxLinks = 1 << 18;

enum class Role : std::uint8_t { kWorker, kHelper, kSwitch };

std::string_view role_name(Role role);

struct Vertex {
  Role role = Role::kWorker;
  std::string name;  // or its address; empty: none
  std::optional<std::uint32_t> rack;
  // Of a machine, all its links together; a switch has none.
  double in = 0;
  double out = 0;
  std::optional<double> sum;  // bytes of input that it can sum per second; none: as many as come
};

struct Link {
  VertexId from = 0;
  VertexId to = 0;
  double capacity = 0;
};

struct Network {
  // A vertex's id is its index. Machines come first: the parents of a tree are indexed by their
  // ids.
  std::vector<Vertex> vertices;
  std::vector<Link> links;  // directed; one at most from one vertex to another

  std::size_t machines() const;
  // For messages and tables: its name, or its role and id.
  std::string name_of(VertexId id) const;
};

// Full bisection: every machine is joined by its NIC to one switch that never binds.
// Precondition: no switches among the machines.
Network star_network(std::vector<Vertex> machines);

// From machine to machine over switches alone: the fewest hops, and of those the lowest sequence of
// ids. Derived, never stored in a plan: whoever reads the network finds the same. There and back
// may differ where several routes are as short.
//
// Searches from each machine once, when it is first asked about: not for several threads.
class Routes {
 public:
  // `network` must outlive this. Precondition: its links are between its vertices.
  explicit Routes(const Network& network);

  const Network& network() const { return network_; }

  // Calls visit(index of link) along the route, its last link first. False when there is none.
  template <typename Visit>
  bool walk(VertexId from, VertexId to, Visit visit) {
    const std::vector<std::uint32_t>& last = search(from);
    if (from == to || last[to] == kNone) return false;
    for (VertexId at = to; at != from; at = network_.links[last[at]].from) visit(last[at]);
    return true;
  }

  bool has(VertexId from, VertexId to) {
    return walk(from, to, [](std::uint32_t) {});
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  // By vertex: the last link of the route from here to it.
  const std::vector<std::uint32_t>& search(VertexId from);
  std::span<const std::uint32_t> links_from(VertexId id) const;

  const Network& network_;
  std::vector<std::uint32_t> sorted_;              // links by (from, to)
  std::vector<std::uint32_t> first_;               // of each vertex in sorted_, and the end
  std::vector<std::vector<std::uint32_t>> found_;  // by source; empty: not yet searched
};

}  // namespace tally::plan
