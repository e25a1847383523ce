#include "control/cli/probe/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/speed.h"
#include "control/plan/json/machine_network.h"

namespace tally::control::probe {
namespace {

// A begin of names that no machine's name has.
std::string prefix_of(const plan::MachineFile& file) {
  std::string prefix = "rack";
  const auto is_taken = [&](const plan::Machine& machine) {
    return machine.name.rfind(prefix, 0) == 0;
  };
  while (std::any_of(file.machines.begin(), file.machines.end(), is_taken)) prefix += "-";
  return prefix;
}

}  // namespace

std::vector<std::string> narrow_pairs(const plan::MachineFile& file) {
  std::vector<std::pair<double, std::string>> narrow;
  for (const plan::MachinePair& pair : file.pairs) {
    const double nics = plan::nics_of_narrow(file, pair);
    if (nics == 0) continue;
    narrow.emplace_back(
        pair.speed / nics,
        fmt::format("{} -> {}: {} where both NICs carry {}", file.machines[pair.from].name,
                    file.machines[pair.to].name, speed_text(pair.speed), speed_text(nics)));
  }
  std::stable_sort(narrow.begin(), narrow.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> words;
  for (auto& [share, text] : narrow) words.push_back(std::move(text));
  return words;
}

void fill_in(plan::MachineFile& file) {
  std::vector<double> in(file.machines.size()), out(file.machines.size());
  for (const plan::MachinePair& pair : file.pairs) {
    out[pair.from] = std::max(out[pair.from], pair.speed);
    in[pair.to] = std::max(in[pair.to], pair.speed);
  }
  for (std::size_t i = 0; i < file.machines.size(); ++i) {
    if (file.machines[i].in == 0) file.machines[i].in = in[i];
    if (file.machines[i].out == 0) file.machines[i].out = out[i];
  }
}

void add_racks(plan::MachineFile& file, const std::vector<plan::racks::Rack>& racks) {
  const std::string prefix = prefix_of(file);
  for (std::size_t i = 0; i < racks.size(); ++i) {
    const std::string name = fmt::format("{}{}", prefix, i + 1);
    file.racks.push_back({.name = name, .up = racks[i].up, .down = racks[i].down});
    for (const std::size_t machine : racks[i].machines) file.machines[machine].rack = name;
  }
}

std::vector<std::string> describe_racks(const plan::MachineFile& file) {
  std::vector<std::string> lines;
  for (const plan::Switch& rack : file.racks) {
    std::string members;
    for (const plan::Machine& machine : file.machines) {
      if (machine.rack == rack.name) members += " " + machine.name;
    }
    lines.push_back(fmt::format("{}:{}; {} to the other racks, {} from them", rack.name, members,
                                speed_text(rack.up), speed_text(rack.down)));
  }
  return lines;
}

}  // namespace tally::control::probe
