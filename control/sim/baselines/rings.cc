// Ring and hierarchical ring.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "control/sim/baselines/builders.h"

namespace tally::simulator {
namespace {

using Members = std::vector<plan::VertexId>;

// Calls visit(segment, bytes, age) for each chunk of each of `count` equal segments. The ages of
// the first chunks of all segments come first.
template <typename Visit>
void for_each_chunk(std::uint64_t bytes, std::size_t count, std::uint64_t chunk, Visit visit) {
  const std::vector<double> shares(count, 1 / static_cast<double>(count));
  const std::vector<std::uint64_t> segments = divide(bytes, shares);
  for (std::uint32_t age = 0; age * chunk < segments[0]; ++age) {
    for (std::size_t segment = 0; segment < count; ++segment) {
      const std::uint64_t begin = age * chunk;
      if (begin >= segments[segment]) continue;
      visit(segment, static_cast<std::uint32_t>(std::min(chunk, segments[segment] - begin)), age);
    }
  }
}

// A chunk goes around a ring in `hops` transfers.
struct Walk {
  std::size_t first = 0;  // index of the member that sends first
  std::size_t hops = 0;
  std::size_t summed = 0;  // the receivers of so many of the first hops add up
  std::uint32_t bytes = 0;
  std::uint32_t age = 0;
};

// Adds the transfers, each after the one before. Calls added(number, sender, receiver) for each.
template <typename Added>
void walk(Transfers& transfers, const Members& ring, const Walk& way, Added added) {
  std::uint32_t last = UINT32_MAX;
  for (std::size_t hop = 0; hop < way.hops; ++hop) {
    const std::size_t from = (way.first + hop) % ring.size();
    const std::size_t to = (from + 1) % ring.size();
    const std::uint32_t number =
        transfers.add({ring[from], ring[to], way.bytes, way.age, hop < way.summed});
    if (last != UINT32_MAX) transfers.after(last, number);
    added(number, ring[from], ring[to]);
    last = number;
  }
}

// The racks by their numbers; by the switch next to the machine when a machine has no number.
std::vector<Members> racks_of(const Question& question) {
  const plan::Network& network = question.network;
  std::map<std::uint32_t, Members> racks;
  const bool numbered =
      std::all_of(question.workers.begin(), question.workers.end(),
                  [&](plan::VertexId id) { return network.vertices[id].rack.has_value(); });
  for (const plan::VertexId id : question.workers) {
    std::uint32_t rack = numbered ? *network.vertices[id].rack : 0;
    if (!numbered) {
      const auto link = std::find_if(network.links.begin(), network.links.end(),
                                     [id](const plan::Link& one) { return one.from == id; });
      if (link != network.links.end()) rack = link->to;
    }
    racks[rack].push_back(id);
  }
  std::vector<Members> list;
  for (const auto& [rack, members] : racks) list.push_back(members);
  return list;
}

// Phases one after the other. A worker has ended a phase when it has received all chunks of it. Its
// transfers of the next phase come after that, and are younger.
class Phases {
 public:
  Phases(Transfers& transfers, std::size_t machines)
      : transfers_(transfers), ended_(machines, UINT32_MAX), received_(machines) {}

  void add(const Members& ring, Walk way) {
    way.age += age_;
    next_age_ = std::max(next_age_, way.age + 1);
    walk(transfers_, ring, way, [&](std::uint32_t number, plan::VertexId from, plan::VertexId to) {
      if (ended_[from] != UINT32_MAX) transfers_.after(ended_[from], number);
      received_[to].push_back(number);
    });
  }

  void end() {
    age_ = next_age_;
    for (plan::VertexId id = 0; id < ended_.size(); ++id) {
      if (received_[id].empty()) continue;
      const std::uint32_t wait = transfers_.add({id, id, 0, 0, false});
      if (ended_[id] != UINT32_MAX) transfers_.after(ended_[id], wait);
      for (const std::uint32_t number : received_[id]) transfers_.after(number, wait);
      ended_[id] = wait;
      received_[id].clear();
    }
  }

 private:
  Transfers& transfers_;
  // By machine: the transfer to itself that ends the phase before; UINT32_MAX before the first.
  std::vector<std::uint32_t> ended_;
  std::vector<std::vector<std::uint32_t>> received_;  // by machine, in this phase
  std::uint32_t age_ = 0;                             // of the first chunks of this phase
  std::uint32_t next_age_ = 0;
};

}  // namespace

Result<Work> ring(const Question& question) {
  const std::size_t n = question.workers.size();
  Transfers transfers{.list = {}, .order = {}, .bytes = question.bytes};
  for_each_chunk(question.bytes, n, question.chunk,
                 [&](std::size_t segment, std::uint32_t bytes, std::uint32_t age) {
                   walk(transfers, question.workers, {segment, 2 * (n - 1), n - 1, bytes, age},
                        [](std::uint32_t, plan::VertexId, plan::VertexId) {});
                 });
  return Work(std::move(transfers));
}

Result<Work> hierarchical_ring(const Question& question) {
  const std::vector<Members> racks = racks_of(question);
  const std::size_t w = racks.front().size();
  for (const Members& rack : racks) {
    if (rack.size() == w) continue;
    return invalid(
        fmt::format("a rack has {} workers and another has {}; it needs racks of equal "
                    "size",
                    w, rack.size()));
  }
  Transfers transfers{.list = {}, .order = {}, .bytes = question.bytes};
  Phases phases(transfers, question.network.machines());
  for (const Members& rack : racks) {
    for_each_chunk(question.bytes, w, question.chunk,
                   [&](std::size_t segment, std::uint32_t bytes, std::uint32_t age) {
                     phases.add(rack, {segment, w - 1, w - 1, bytes, age});
                   });
  }
  phases.end();
  // The member (segment + w - 1) % w of each rack has the rack's sum of the segment.
  const std::vector<double> shares(w, 1 / static_cast<double>(w));
  const std::vector<std::uint64_t> segments = divide(question.bytes, shares);
  for (std::size_t segment = 0; segment < w; ++segment) {
    Members across;
    for (const Members& rack : racks) across.push_back(rack[(segment + w - 1) % w]);
    const std::size_t r = racks.size();
    if (r == 1 || segments[segment] == 0) continue;
    for_each_chunk(segments[segment], r, question.chunk,
                   [&](std::size_t part, std::uint32_t bytes, std::uint32_t age) {
                     phases.add(across, {part, 2 * (r - 1), r - 1, bytes, age});
                   });
  }
  phases.end();
  for (const Members& rack : racks) {
    for_each_chunk(question.bytes, w, question.chunk,
                   [&](std::size_t segment, std::uint32_t bytes, std::uint32_t age) {
                     phases.add(rack, {(segment + w - 1) % w, w - 1, 0, bytes, age});
                   });
  }
  phases.end();
  return Work(std::move(transfers));
}

}  // namespace tally::simulator
