#include "control/plan/packing/places/symmetry.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace tally::plan {
namespace {

// What the machines of a group have in common beside their switch: whether they are workers, the
// speeds in, out, up to the switch and down from it, and that of sums.
using GroupKey = std::tuple<bool, double, double, double, double, double>;

struct Attachment {
  VertexId hub = 0;
  double up = 0;
  double down = 0;
};

// By machine: its switch, when it has one link each way and both join it to that switch.
std::vector<std::optional<Attachment>> attachments(const Network& network) {
  const std::size_t machines = network.machines();
  std::vector<std::size_t> out(machines, 0), in(machines, 0);
  std::vector<Attachment> found(machines);
  for (const Link& link : network.links) {
    if (link.from < machines) {
      ++out[link.from];
      found[link.from].hub = link.to;
      found[link.from].up = link.capacity;
    }
  }
  for (const Link& link : network.links) {
    if (link.to >= machines) continue;
    ++in[link.to];
    if (found[link.to].hub != link.from) ++in[link.to];
    found[link.to].down = link.capacity;
  }
  std::vector<std::optional<Attachment>> attachments(machines);
  for (std::size_t id = 0; id < machines; ++id) {
    if (out[id] == 1 && in[id] == 1 && found[id].hub >= machines) attachments[id] = found[id];
  }
  return attachments;
}

// What racks of one set have in common: their groups' keys and sizes, and all links of the switch
// but those to the groups, as (other end, speed, whether outward).
using RackKey = std::pair<std::vector<std::pair<GroupKey, std::size_t>>,
                          std::vector<std::tuple<VertexId, double, bool>>>;

class Finder {
 public:
  Finder(Routes& routes, const std::vector<bool>& is_worker)
      : routes_(routes), network_(routes.network()), is_worker_(is_worker) {}

  Symmetry run() {
    find_groups();
    find_sets();
    if (!routes_agree()) {
      found_.sets.clear();
      for (std::size_t rack = 0; rack < found_.racks.size(); ++rack) {
        found_.racks[rack].set = found_.sets.size();
        found_.sets.push_back({rack});
      }
    }
    return std::move(found_);
  }

 private:
  void find_groups() {
    const auto attached = attachments(network_);
    std::map<std::pair<VertexId, GroupKey>, std::vector<VertexId>> members;
    for (VertexId id = 0; id < attached.size(); ++id) {
      if (!attached[id]) continue;
      const Vertex& machine = network_.vertices[id];
      const auto& [hub, up, down] = *attached[id];
      members[{hub, GroupKey{is_worker_[id], machine.in, machine.out, up, down,
                             machine.sum.value_or(0)}}]
          .push_back(id);
    }
    found_.group_of.assign(attached.size(), 0);
    for (auto& [key, machines] : members) {
      if (found_.racks.empty() || found_.racks.back().hub != key.first) {
        found_.racks.push_back({{}, key.first, 0});
        keys_.emplace_back();
      }
      keys_.back().first.emplace_back(key.second, machines.size());
      add_group(std::move(machines));
    }
    for (VertexId id = 0; id < attached.size(); ++id) {
      if (attached[id]) continue;
      found_.racks.push_back({{}, std::nullopt, 0});
      add_group({id});
    }
  }

  void add_group(std::vector<VertexId> machines) {
    for (const VertexId id : machines) found_.group_of[id] = found_.groups.size();
    found_.racks.back().groups.push_back(found_.groups.size());
    const bool is_worker = is_worker_[machines.front()];
    found_.groups.push_back({std::move(machines), is_worker, found_.racks.size() - 1});
  }

  void find_sets() {
    rack_at_.assign(network_.vertices.size(), kNoRack);
    for (std::size_t rack = 0; rack < keys_.size(); ++rack)
      rack_at_[*found_.racks[rack].hub] = rack;
    const auto is_grouped = [&](VertexId id, std::size_t rack) {
      return id < found_.group_of.size() && found_.groups[found_.group_of[id]].rack == rack;
    };
    for (const Link& link : network_.links) {
      const std::size_t from = rack_at_[link.from], to = rack_at_[link.to];
      if (from != kNoRack && !is_grouped(link.to, from)) {
        keys_[from].second.emplace_back(link.to, link.capacity, true);
      }
      if (to != kNoRack && !is_grouped(link.from, to)) {
        keys_[to].second.emplace_back(link.from, link.capacity, false);
      }
    }
    std::map<RackKey, std::size_t> sets;
    for (std::size_t rack = 0; rack < found_.racks.size(); ++rack) {
      std::size_t set = found_.sets.size();
      if (rack < keys_.size()) {
        std::sort(keys_[rack].second.begin(), keys_[rack].second.end());
        set = sets.emplace(keys_[rack], set).first->second;
      }
      if (set == found_.sets.size()) found_.sets.emplace_back();
      found_.sets[set].push_back(rack);
      found_.racks[rack].set = set;
    }
  }

  // The switches of the route from a machine to another. A rack's switch counts as "that of the
  // first machine" or "that of the second" when its rack can change places. Returns false when the
  // route passes such a rack of neither machine.
  bool describe_route(VertexId from, VertexId to, std::vector<std::int64_t>& switches) {
    constexpr std::int64_t kOfFirst = -1, kOfSecond = -2;
    const std::size_t first = found_.groups[found_.group_of[from]].rack;
    const std::size_t second = found_.groups[found_.group_of[to]].rack;
    bool is_fine = true;
    routes_.walk(from, to, [&](std::uint32_t link) {
      const VertexId at = network_.links[link].from;
      if (at == from) return;
      const std::size_t rack = rack_at_[at];
      if (rack == kNoRack || found_.sets[found_.racks[rack].set].size() == 1) {
        switches.push_back(at);
      } else {
        switches.push_back(rack == first ? kOfFirst : kOfSecond);
        is_fine = is_fine && (rack == first || rack == second);
      }
    });
    return is_fine;
  }

  // Whether routes between machines at alike places are alike. The machines of a group have the
  // same routes, so one of them stands for all.
  bool routes_agree() {
    using Places = std::array<std::size_t, 5>;  // set and place of both machines; 1 in one rack
    std::map<Places, std::vector<std::int64_t>> known;
    for (std::size_t from = 0; from < found_.racks.size(); ++from) {
      for (std::size_t to = 0; to < found_.racks.size(); ++to) {
        const Rack& first = found_.racks[from];
        const Rack& second = found_.racks[to];
        for (std::size_t i = 0; i < first.groups.size(); ++i) {
          for (std::size_t j = 0; j < second.groups.size(); ++j) {
            const VertexId a = found_.groups[first.groups[i]].machines.front();
            const VertexId b = found_.groups[second.groups[j]].machines.back();
            if (a == b) continue;
            std::vector<std::int64_t> route;
            if (!describe_route(a, b, route)) return false;
            const Places places = {first.set, i, second.set, j, from == to ? 1U : 0U};
            if (known.emplace(places, route).first->second != route) return false;
          }
        }
      }
    }
    return true;
  }

  static constexpr std::size_t kNoRack = SIZE_MAX;

  Routes& routes_;
  const Network& network_;
  const std::vector<bool>& is_worker_;
  Symmetry found_;
  std::vector<RackKey> keys_;         // of the racks with a switch, which come first
  std::vector<std::size_t> rack_at_;  // by vertex: the rack whose switch it is
};

// The link that goes the other way, by index.
std::vector<std::optional<std::size_t>> reverse_links(const Network& network) {
  std::map<std::pair<VertexId, VertexId>, std::size_t> index;
  for (std::size_t i = 0; i < network.links.size(); ++i) {
    index[{network.links[i].from, network.links[i].to}] = i;
  }
  std::vector<std::optional<std::size_t>> reverse(network.links.size());
  for (std::size_t i = 0; i < network.links.size(); ++i) {
    const auto found = index.find({network.links[i].to, network.links[i].from});
    if (found != index.end()) reverse[i] = found->second;
  }
  return reverse;
}

}  // namespace

Symmetry find_symmetry(Routes& routes, const std::vector<bool>& is_worker) {
  return Finder(routes, is_worker).run();
}

Symmetry no_symmetry(const std::vector<bool>& is_worker) {
  Symmetry found;
  for (std::size_t id = 0; id < is_worker.size(); ++id) {
    found.groups.push_back({{static_cast<VertexId>(id)}, is_worker[id], id});
    found.racks.push_back({{id}, std::nullopt, id});
    found.sets.push_back({id});
    found.group_of.push_back(id);
  }
  return found;
}

bool is_two_way(Routes& routes, const Symmetry& symmetry) {
  const Network& network = routes.network();
  for (std::size_t id = 0; id < network.machines(); ++id) {
    const Vertex& machine = network.vertices[id];
    if (machine.in != machine.out || machine.sum) return false;
  }
  const auto reverse = reverse_links(network);
  for (std::size_t i = 0; i < network.links.size(); ++i) {
    if (!reverse[i] || network.links[*reverse[i]].capacity != network.links[i].capacity)
      return false;
  }
  for (const Group& from : symmetry.groups) {
    for (const Group& to : symmetry.groups) {
      const VertexId a = from.machines.front(), b = to.machines.back();
      if (a >= b) continue;
      std::vector<std::size_t> there, back;
      routes.walk(a, b, [&](std::uint32_t link) { there.push_back(*reverse[link]); });
      routes.walk(b, a, [&](std::uint32_t link) { back.push_back(link); });
      std::reverse(back.begin(), back.end());
      if (there != back) return false;
    }
  }
  return true;
}

}  // namespace tally::plan
