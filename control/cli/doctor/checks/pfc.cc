// Priority flow control: which side paused the other, and which packets were discarded
// nevertheless.
#include <fmt/format.h>

#include <array>

#include "control/cli/doctor/checks/checks.h"
#include "control/cli/doctor/rdma.h"

namespace tally::control::doctor {
namespace {

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

// What a statistic counts, by its name. Drivers share some words of the names and little more.
enum class Kind { kOther, kPausedByNetwork, kPausedNetwork, kLinkPause, kStorm, kDiscard };
constexpr std::size_t kKinds = 6;

// Pause names are rx_prio3_pause (mlx5), rx_prio_3_pause (mlx4), rx_pfc_ena_frames_pri3 and
// rx_priority_3_xoff. A received frame orders this machine to pause. Durations and transitions
// count the same event a second time.
Kind kind_of(std::string_view name) {
  if (has(name, "duration") || has(name, "transition") || has(name, "xon")) return Kind::kOther;
  const bool received = name.starts_with("rx") || has(name, "rx_");
  const bool priority = has(name, "pri") || has(name, "pfc");
  if (has(name, "storm")) return Kind::kStorm;
  if (has(name, "discard") || has(name, "buf_drop")) {
    return priority || has(name, "phy") ? Kind::kDiscard : Kind::kOther;
  }
  const bool pause = has(name, "pause") || has(name, "xoff") || has(name, "pfc_ena_frames");
  if (!pause) return Kind::kOther;
  if (!priority) return Kind::kLinkPause;
  return received ? Kind::kPausedByNetwork : Kind::kPausedNetwork;
}

struct Meaning {
  Level level;
  std::string_view what;
  std::string_view remedy;  // "{}" stands for the interface
};

constexpr std::array<Meaning, kKinds> kMeaningOfKind = {{
    {Level::kOk, "", ""},
    {Level::kNote, "the network made this machine pause",
     "congestion: ECN should slow senders down before that (tallyctl doctor --check counters: "
     "rp_cnp_handled); look for a slow receiver"},
    {Level::kNote, "this machine made the network pause: it takes in too slowly",
     "tallyctl doctor --check numa, --check cpu; PCIe width and speed: lspci -vv, LnkSta"},
    {Level::kWarning, "the whole link was paused, which stops all its traffic",
     "pause one priority instead: ethtool -A {} rx off tx off; mlnx_qos -i {} --pfc "
     "0,0,0,1,0,0,0,0 --trust dscp (or dcb pfc set dev {} prio-pfc 3:on), and the same at the "
     "switch"},
    {Level::kWarning, "it paused the network for so long that the card took measures (pause storm)",
     "look for a stuck program or a broken card; firmware up to date? ethtool -i {}"},
    {Level::kWarning, "packets were thrown away for want of buffers",
     "priority of RoCE lossless? mlnx_qos -i {} (or dcb pfc show dev {}); RoCE packets in that "
     "priority? cma_roce_tos"},
}};

Findings interface_findings(const std::string& interface, const Statistics& statistics) {
  std::array<std::string, kKinds> counted;
  std::size_t known = 0;
  for (const auto& [name, value] : statistics) {
    const auto kind = static_cast<std::size_t>(kind_of(name));
    if (kind == 0) continue;
    ++known;
    if (value == 0) continue;
    counted[kind] += fmt::format("{}{} {}", counted[kind].empty() ? "" : ", ", name, value);
  }
  Findings findings;
  for (std::size_t kind = 1; kind < kKinds; ++kind) {
    if (counted[kind].empty()) continue;
    const Meaning& meaning = kMeaningOfKind[kind];
    findings.push_back({meaning.level, interface,
                        fmt::format("{} ({})", meaning.what, counted[kind]),
                        filled_in(meaning.remedy, interface)});
  }
  if (!findings.empty()) return findings;
  if (known == 0) return {ok(interface, "its driver counts no pauses")};
  return {ok(interface, fmt::format("no pause and no discard in {} statistics", known))};
}

}  // namespace

Findings check_pfc(const Machine& machine) {
  const auto interfaces = roce_interfaces(machine.files);
  if (interfaces.empty()) return {ok("PFC", "no RoCE interface")};
  Findings findings;
  for (const std::string& interface : interfaces) {
    const auto statistics = machine.system.ethtool_statistics(interface);
    if (!statistics && statistics.status() == Status::kUnsupported) {
      findings.push_back(ok(interface, "its driver counts no pauses"));
      continue;
    }
    if (!statistics) {
      findings.push_back(unknown(interface, statistics.error()));
      continue;
    }
    for (Finding& finding : interface_findings(interface, *statistics)) {
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace tally::control::doctor
