// CPUs: their distance from the network cards, their speed, and whether other work uses them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "control/cli/doctor/checks/checks.h"
#include "control/cli/doctor/rdma.h"

namespace tally::control::doctor {
namespace {

constexpr std::string_view kNodes = "/sys/devices/system/node";
constexpr std::string_view kCpus = "/sys/devices/system/cpu";

struct NumaNode {
  int number = 0;
  std::string cpulist;
  std::vector<int> cpus;
  std::vector<std::string> distances;  // to each node, in the order of their numbers
};

std::vector<NumaNode> numa_nodes(const Files& files) {
  std::vector<NumaNode> nodes;
  for (const std::string& name : files.list(kNodes)) {
    if (!name.starts_with("node")) continue;
    const auto number = leading_number(std::string_view(name).substr(4));
    const std::string folder = fmt::format("{}/{}", kNodes, name);
    const auto cpus = files.read(folder + "/cpulist");
    const auto distances = files.read(folder + "/distance");
    if (!number || !cpus) continue;
    nodes.push_back({static_cast<int>(*number), *cpus, parse_list(*cpus),
                     distances ? words_of(*distances) : std::vector<std::string>{}});
  }
  return nodes;
}

const NumaNode* node_of(const std::vector<NumaNode>& nodes, int cpu) {
  for (const NumaNode& node : nodes) {
    if (std::find(node.cpus.begin(), node.cpus.end(), cpu) != node.cpus.end()) return &node;
  }
  return nullptr;
}

// The NUMA node of a network card or an RDMA device; -1 when the machine does not report it.
int numa_node_of(const Files& files, const std::string& folder) {
  const auto text = files.read(folder + "/device/numa_node");
  const auto number = text ? leading_number(*text) : Result<std::uint64_t>(text.error());
  return number ? static_cast<int>(*number) : -1;
}

// "node0 (distance 21, 10 is its own)". Distances are kept by position and not by number.
std::string with_distance(const std::vector<NumaNode>& nodes, const NumaNode& from, int to) {
  for (std::size_t i = 0; i < nodes.size() && i < from.distances.size(); ++i) {
    if (nodes[i].number == to) {
      return fmt::format("node{} (distance {}, 10 is its own)", from.number, from.distances[i]);
    }
  }
  return fmt::format("node{}", from.number);
}

Finding card_finding(const std::vector<NumaNode>& nodes, const std::string& card, int card_node,
                     const std::vector<int>& cpus, const std::string& whose) {
  const auto home = std::find_if(nodes.begin(), nodes.end(), [card_node](const NumaNode& node) {
    return node.number == card_node;
  });
  if (home == nodes.end()) {
    return ok(card, "the machine does not say at which NUMA node it is");
  }
  std::size_t near = 0;
  std::map<int, std::string> elsewhere;
  for (const int cpu : cpus) {
    const NumaNode* node = node_of(nodes, cpu);
    near += node == &*home ? 1 : 0;
    if (node != nullptr && node != &*home) {
      elsewhere[node->number] = with_distance(nodes, *node, card_node);
    }
  }
  std::string value =
      fmt::format("at node{}, with {} of {} CPUs of {}", card_node, near, cpus.size(), whose);
  if (near == cpus.size()) return ok(card, value);
  std::string others;
  for (const auto& [number, text] : elsewhere) others += (others.empty() ? "" : ", ") + text;
  value += "; others at " + others;
  const std::string remedy = fmt::format(
      "numactl --cpunodebind={0} --membind={0} tallyd ...; a service: "
      "CPUAffinity={1} and NUMAMask={0} with NUMAPolicy=bind",
      card_node, home->cpulist);
  return near == 0 ? warning(card, value, remedy) : note(card, value, remedy);
}

Finding governor(const Files& files, const std::vector<int>& cpus) {
  std::set<std::string> governors;
  for (const int cpu : cpus) {
    const auto chosen = files.read(fmt::format("{}/cpu{}/cpufreq/scaling_governor", kCpus, cpu));
    if (chosen) governors.insert(*chosen);
  }
  const std::string what = "frequency governor";
  const std::string value = joined({governors.begin(), governors.end()});
  if (governors.empty()) return ok(what, "none here (as in a virtual machine)");
  if (governors == std::set<std::string>{"performance"}) return ok(what, value);
  return note(what, value + ": a core that has slept starts slowly",
              "cpupower frequency-set -g performance (package linux-cpupower)");
}

// The value of an option of the kernel's command line; none when the option is absent.
std::optional<std::string> boot_option(const Files& files, std::string_view name) {
  const auto line = files.read("/proc/cmdline");
  if (!line) return std::nullopt;
  for (const std::string& word : words_of(*line)) {
    if (word.starts_with(name) && word.substr(name.size()).starts_with('=')) {
      return word.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

Finding isolation(const Machine& machine) {
  const std::string what = "CPUs set apart (isolcpus, nohz_full)";
  const auto isolated = boot_option(machine.files, "isolcpus");
  const auto tickless = boot_option(machine.files, "nohz_full");
  if (isolated || tickless) {
    return ok(what, fmt::format("isolcpus={} nohz_full={}", isolated.value_or("none"),
                                tickless.value_or("none")));
  }
  if (!machine.config || machine.config->poll != PollMode::kBusy) {
    return ok(what, "none, and only shards.poll = \"busy\" would gain by it");
  }
  return note(what, "none, and shards.poll = \"busy\": other work interrupts the shards",
              "isolcpus=CPUS nohz_full=CPUS in GRUB_CMDLINE_LINUX of /etc/default/grub, "
              "update-grub, then taskset -c CPUS tallyd ...");
}

// Translation by the IOMMU costs a card one look-up per page.
Finding iommu(const Files& files) {
  const std::string what = "IOMMU";
  const auto devices = rdma_devices(files);
  if (devices.empty()) return ok(what, "matters to RDMA devices alone");
  std::set<std::string> translated;
  for (const std::string& device : devices) {
    const auto type = files.read(fmt::format("{}/{}/device/iommu_group/type", kInfiniband, device));
    if (type && type->starts_with("DMA")) translated.insert(device);
  }
  if (translated.empty()) return ok(what, "no RDMA device is translated");
  return note(what,
              joined({translated.begin(), translated.end()}) +
                  ": translated, which costs "
                  "throughput",
              "iommu=pt in GRUB_CMDLINE_LINUX of /etc/default/grub, update-grub, restart");
}

}  // namespace

Findings check_numa(const Machine& machine) {
  const auto cpus = shard_cpus(machine);
  if (!cpus) return {unknown("NUMA", cpus.error())};
  const auto nodes = numa_nodes(machine.files);
  if (nodes.size() < 2) return {ok("NUMA", "one node: every CPU is as near as any other")};
  Findings findings;
  const std::string whose = machine.config ? "the shards" : "this process";
  const auto examine_card = [&](std::string_view folder, const std::string& name) {
    const int node = numa_node_of(machine.files, fmt::format("{}/{}", folder, name));
    findings.push_back(card_finding(nodes, name, node, *cpus, whose));
  };
  for (const std::string& device : rdma_devices(machine.files)) examine_card(kInfiniband, device);
  if (findings.empty()) {
    for (const std::string& card : network_cards(machine.files)) examine_card(kNet, card);
  }
  if (findings.empty()) findings.push_back(ok("NUMA", "no network card to be near to"));
  return findings;
}

Findings check_cpu(const Machine& machine) {
  Findings findings;
  const auto cpus = shard_cpus(machine);
  findings.push_back(cpus ? governor(machine.files, *cpus)
                          : unknown("frequency governor", cpus.error()));
  findings.push_back(isolation(machine));
  findings.push_back(iommu(machine.files));
  return findings;
}

}  // namespace tally::control::doctor
