#include "control/coordinator/layout/rack_machines.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "control/coordinator/layout/shares.h"

namespace tally::control {
namespace {

constexpr double kNominalNic = 1e9;  // bytes per second, when no speed is known
// Of the NICs of a rack together. A plan for such links costs little where they are faster
// (docs/planning.md).
constexpr double kAssumedLink = 0.5;

double slower(double one, std::uint64_t other) {
  const auto known = static_cast<double>(other);
  return one == 0 || (known > 0 && known < one) ? known : one;
}

std::vector<plan::Switch> racks_of(const std::vector<Member>& list,
                                   const std::vector<plan::Machine>& machines) {
  std::map<std::string, plan::Switch> racks;
  std::map<std::string, double> nics;  // of the machines of a rack together
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Rack& known = list[i].known_rack();
    if (known.name.empty()) continue;
    plan::Switch& rack = racks[known.name];
    rack.name = known.name;
    rack.up = slower(rack.up, known.up);
    rack.down = slower(rack.down, known.down);
    nics[known.name] += machines[i].out;
  }
  std::vector<plan::Switch> found;
  for (auto& [name, rack] : racks) {
    const double assumed = nics[name] * kAssumedLink;
    if (rack.up == 0) rack.up = rack.down > 0 ? rack.down : assumed;
    if (rack.down == 0) rack.down = rack.up;
    found.push_back(std::move(rack));
  }
  return found;
}

}  // namespace

std::optional<plan::MachineFile> rack_machines(const Members& members) {
  std::vector<Member> list;
  for (const auto& [node, member] : members) list.push_back(member);
  const bool has_racks = std::any_of(
      list.begin(), list.end(), [](const Member& one) { return !one.known_rack().name.empty(); });
  if (!has_racks) return std::nullopt;
  std::sort(list.begin(), list.end(),
            [](const Member& one, const Member& other) { return one.name < other.name; });
  const bool has_speeds = std::any_of(list.begin(), list.end(),
                                      [](const Member& one) { return one.usable_speed() != 0; });
  const std::vector<double> speeds = member_speeds(list);
  plan::MachineFile file;
  for (std::size_t i = 0; i < list.size(); ++i) {
    plan::Machine& machine = file.machines.emplace_back();
    machine.name = list[i].name;
    machine.role = list[i].role == Role::kWorker ? plan::Role::kWorker : plan::Role::kHelper;
    machine.in = machine.out = has_speeds ? speeds[i] : kNominalNic;
    machine.sum = static_cast<double>(list[i].measured.sum);
    machine.rack = list[i].known_rack().name;
  }
  file.racks = racks_of(list, file.machines);
  return file;
}

}  // namespace tally::control
