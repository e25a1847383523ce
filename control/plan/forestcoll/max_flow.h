// Maximum flows in whole numbers (Dinic's algorithm, 1970): O(vertices^2 arcs), and much less on
// the small graphs of machines here. A copy of an object continues from the flow that the object
// has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tally::plan::forestcoll {

// A square table of whole capacities, by vertices: from, to.
class Capacities {
 public:
  explicit Capacities(std::size_t vertices) : vertices_(vertices), values_(vertices * vertices) {}

  std::size_t vertices() const { return vertices_; }
  std::int64_t& operator()(std::size_t from, std::size_t to) {
    return values_[from * vertices_ + to];
  }
  std::int64_t operator()(std::size_t from, std::size_t to) const {
    return values_[from * vertices_ + to];
  }

 private:
  std::size_t vertices_;
  std::vector<std::int64_t> values_;
};

class MaxFlow {
 public:
  // A capacity that never limits. The sum of all other capacities must be below it.
  static constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;

  // `further`: the number of vertices after those of the table, without arcs.
  MaxFlow(const Capacities& capacities, std::size_t further);

  void add(std::size_t from, std::size_t to, std::int64_t capacity);

  // Sends as much as possible on top of the flow that is there, but at most `limit`. Returns how
  // much it has sent. Precondition: source != sink.
  std::int64_t run(std::size_t source, std::size_t sink, std::int64_t limit = kUnlimited);

  // Returns, by vertex, whether the source can send it more. After a run() that no limit ended,
  // these vertices are the source's side of a least cut.
  std::vector<bool> reached_from(std::size_t source) const;

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  struct Arc {
    std::uint32_t to = 0;
    std::uint32_t next = kNone;  // of the same vertex
    std::int64_t left = 0;       // of its capacity
  };                             // the arc back is arcs_[index ^ 1]

  bool find_levels(std::size_t source, std::size_t sink);
  std::int64_t push(std::size_t at, std::size_t sink, std::int64_t most);

  std::vector<Arc> arcs_;
  std::vector<std::uint32_t> first_;    // by vertex
  std::vector<std::uint32_t> current_;  // by vertex: the first arc that may still carry
  std::vector<std::uint32_t> levels_;   // by vertex: hops from the source
};

}  // namespace tally::plan::forestcoll
