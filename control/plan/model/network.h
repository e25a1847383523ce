// The machines and the links between them, for which a planner makes a plan. These are plain values
// without threads or clocks.
//
// Speeds are bytes per second, measured or declared. Machines are workers and helpers. Workers own
// a gradient and need the result. Helpers may sum, replicate or relay. Switches only forward.
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
  std::string name;  // or its address; empty when it has none
  std::optional<std::uint32_t> rack;
  // Speed of all links of a machine together, each way. A switch has none.
  double in = 0;
  double out = 0;
  // Bytes of input that it can sum per second. Without a value it sums as fast as bytes come.
  std::optional<double> sum;
};

struct Link {
  VertexId from = 0;
  VertexId to = 0;
  double capacity = 0;
};

// The kinds of places that bytes pass: a link, all links into or out of a machine, or the sums of a
// machine.
enum class Passage : std::uint8_t { kLink, kIn, kOut, kSum };

// "link", "in", "out" or "sum", as files and reports have it.
std::string_view passage_name(Passage passage);

struct Network {
  // A vertex's id is its index. Machines come before switches, because the parents of a tree are
  // indexed by machine ids.
  std::vector<Vertex> vertices;
  std::vector<Link> links;  // directed; at most one from one vertex to another

  std::size_t machines() const;
  // Returns its name, or its role and id, for messages and tables.
  std::string name_of(VertexId id) const;
};

// Returns a network of full bisection: the NIC of every machine is joined to one switch that never
// limits. Precondition: no machine is a switch.
Network star_network(std::vector<Vertex> machines);

// Returns, by vertex, whether links lead from `from` to it, or with `forwards` false, from it to
// `from`. Preconditions: `from` and both ends of each link are vertices of the network.
std::vector<bool> reached(const Network& network, VertexId from, bool forwards);

// The routes from machine to machine over switches alone. A route has the fewest hops, and among
// those the lowest sequence of ids. No plan stores routes, because every reader of the network
// finds the same ones. The route back may differ from the route there when several are equally
// short.
//
// The first question about a machine starts a search from it. So only one thread may use an object.
class Routes {
 public:
  // `network` must outlive this object. Precondition: both ends of each link are vertices of the
  // network.
  explicit Routes(const Network& network);

  const Network& network() const { return network_; }

  // Calls visit(index of link) along the route, beginning with its last link. Returns false when
  // there is no route.
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

  // Returns, by vertex, the last link of the route from `from` to it.
  const std::vector<std::uint32_t>& search(VertexId from);
  std::span<const std::uint32_t> links_from(VertexId id) const;

  const Network& network_;
  std::vector<std::uint32_t> sorted_;  // links by (from, to)
  std::vector<std::uint32_t> first_;   // by vertex: index in sorted_ of its first link; and the end
  std::vector<std::vector<std::uint32_t>> found_;  // by source; empty until searched
};

}  // namespace tally::plan
