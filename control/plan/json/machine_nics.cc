#include "control/plan/json/machine_nics.h"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tally::plan {
namespace {

constexpr std::size_t kLongestNicName = 256;  // bytes; also of a path
constexpr std::size_t kShownNics = 16;        // in a message

class NicsReader {
 public:
  NicsReader(const Value& machine, std::optional<VertexId> rack, const SwitchNamed& switch_named)
      : machine_(machine), rack_(rack), switch_named_(switch_named) {}

  MachineNics read() const {
    MachineNics nics;
    const Value list = machine_.member("nics");
    const std::size_t size = list.size(kMaxNics);
    for (std::size_t i = 0; i < size; ++i) {
      const Value nic = list.entry(i);
      nic.expect_object({"to", "speed", "out", "in"});
      const BothWays speed = read_speeds(nic, "out", "in");
      BothWays& sum = nics.links.try_emplace(end_of(nic), BothWays{0, 0}).first->second;
      sum.there += speed.there;
      sum.back += speed.back;
    }
    return nics;
  }

  MachineNics read(const PcieTree& tree) const {
    Ports all(tree.parts.size(), BothWays{0, 0});
    std::map<VertexId, Ports> by_switch;
    const auto add = [&](std::size_t part, VertexId to, BothWays speed) {
      all[part] = speed;
      by_switch.try_emplace(to, all.size(), BothWays{0, 0}).first->second[part] = speed;
    };
    if (machine_.has("nics")) {
      read_named(tree, add);
    } else if (rack_) {
      for (std::size_t part = 0; part < all.size(); ++part) {
        if (tree.parts[part].is_nic) add(part, *rack_, tree.parts[part].link);
      }
    } else {
      machine_.refuse("given the switches of its NICs: \"rack\", or \"nics\" with \"to\"");
    }
    MachineNics nics;
    for (auto& [to, ports] : by_switch) nics.links[to] = speed_together(tree, std::move(ports));
    nics.together = speed_together(tree, std::move(all));
    return nics;
  }

 private:
  using Ports = std::vector<BothWays>;  // by part

  template <typename Add>
  void read_named(const PcieTree& tree, const Add& add) const {
    const Value list = machine_.member("nics");
    const std::size_t size = list.size(kMaxNics);
    std::set<std::size_t> given;
    for (std::size_t i = 0; i < size; ++i) {
      const Value nic = list.entry(i);
      nic.expect_object({"name", "to", "speed", "out", "in"});
      const Value name = nic.member("name");
      const std::size_t part = tree.find(name.text(kLongestNicName));
      if (part == tree.parts.size()) {
        return name.refuse("the name of a NIC of the XML: " + names_of(tree));
      }
      if (!given.insert(part).second) return name.refuse("a NIC that is not given before");
      const bool has_speed = nic.has("speed") || nic.has("out") || nic.has("in");
      add(part, end_of(nic), has_speed ? read_speeds(nic, "out", "in") : tree.parts[part].link);
    }
  }

  static std::string names_of(const PcieTree& tree) {
    std::string names;
    std::size_t count = 0;
    for (const PciePart& part : tree.parts) {
      if (!part.is_nic) continue;
      if (++count > kShownNics) return names + ", ...";
      names += (names.empty() ? "" : ", ") + part.name;
    }
    return names;
  }

  VertexId end_of(const Value& nic) const {
    return rack_ && !nic.has("to") ? *rack_ : switch_named_(nic.member("to"));
  }

  const Value& machine_;
  std::optional<VertexId> rack_;
  const SwitchNamed& switch_named_;
};

}  // namespace

double read_speed(const Value& entry, std::string_view key) {
  const Value value = entry.member(key);
  const double speed = value.speed();
  if (std::isfinite(speed) && speed >= kMinSpeed && speed <= kMaxSpeed) return speed;
  value.refuse("bytes per second, 1 to 1e15");
  return kMinSpeed;
}

BothWays read_speeds(const Value& entry, std::string_view there, std::string_view back) {
  if (!entry.has(there) && !entry.has(back)) {
    const double both = read_speed(entry, "speed");
    return {both, both};
  }
  if (entry.has("speed")) {
    entry.refuse(fmt::format("given either \"speed\", or \"{}\" and \"{}\"", there, back));
  }
  return {read_speed(entry, there), read_speed(entry, back)};
}

MachineNics read_nics(const Value& machine, std::optional<VertexId> rack,
                      const SwitchNamed& switch_named, const ReadPcie& read_pcie) {
  const NicsReader reader(machine, rack, switch_named);
  if (!machine.has("hwloc")) return reader.read();
  const Value path = machine.member("hwloc");
  if (!read_pcie) {
    path.refuse(
        "left out: only tallyctl plan reads hwloc's XML; give it the network, and this "
        "program the plan");
    return {};
  }
  const auto tree = read_pcie(path.text(kLongestNicName));
  if (tree) return reader.read(*tree);
  path.refuse("a file of hwloc's XML of this machine; " + tree.error().message);
  return {};
}

}  // namespace tally::plan
