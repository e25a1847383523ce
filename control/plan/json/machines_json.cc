#include "control/plan/json/machines_json.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>

#include "control/plan/json/document.h"
#include "control/plan/json/network_json.h"

namespace tally::plan {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestText = 256;  // bytes
constexpr double kMaxSpeed = 1e15;         // the same as in plans

double speed_of(const Value& machine, std::string_view key) {
  if (!machine.has(key)) return 0;
  const Value value = machine.member(key);
  const double speed = value.speed();
  if (std::isfinite(speed) && speed >= 1 && speed <= kMaxSpeed) return speed;
  value.refuse("bytes per second, 1 to 1e15; leave it out where it is unknown");
  return 0;
}

std::string text_of(const Value& machine, std::string_view key) {
  return machine.has(key) ? machine.member(key).text(kLongestText) : std::string();
}

using Places = std::map<std::string, std::size_t>;  // index of a machine, by name

class MachinesReader {
 public:
  MachinesReader(const Value& file, Mistake& mistake) : file_(file), mistake_(mistake) {}

  MachineFile read() {
    file_.expect_format(kMachinesFormat, {{kNetworkFormat, kMakeAPlan}});
    file_.expect_object({"fmt", "racks", "switches", "machines", "pairs"});
    if (mistake_.any()) return {};
    // Racks and switches first, because machines refer to them by name.
    each("racks", [&](const Value& entry) { read_.racks.push_back(switch_of(entry, true)); });
    each("switches",
         [&](const Value& entry) { read_.switches.push_back(switch_of(entry, false)); });
    if (!switches_.empty()) switches_.try_emplace(std::string(kCoreName), false);
    check_ends("racks", read_.racks);
    check_ends("switches", read_.switches);
    if (!file_.has("machines")) file_.member("machines");
    each("machines", [&](const Value& entry) { read_.machines.push_back(machine_of(entry)); });
    each("pairs", [&](const Value& entry) { read_.pairs.push_back(pair_of(entry)); });
    return std::move(read_);
  }

 private:
  template <typename Action>
  void each(std::string_view key, Action action) {
    if (!file_.has(key)) return;
    const Value list = file_.member(key);
    const std::size_t size = list.size(key == "pairs" ? kMaxLinks : kMaxVertices);
    for (std::size_t i = 0; i < size && !mistake_.any(); ++i) action(list.entry(i));
  }

  Switch switch_of(const Value& entry, bool is_rack) {
    entry.expect_object({"name", "to", "speed", "up", "down"});
    Switch one;
    const Value name = entry.member("name");
    one.name = name.text(kLongestText);
    if (!switches_.try_emplace(one.name, is_rack).second || one.name.empty()) {
      name.refuse("a name that no other rack or switch has, and not empty");
    }
    one.to = text_of(entry, "to");
    one.up = one.down = speed_of(entry, "speed");
    if (entry.has("up") || entry.has("down")) {
      if (one.up > 0) entry.refuse("given either \"speed\", or \"up\" and \"down\"");
      one.up = given_speed_of(entry, "up");
      one.down = given_speed_of(entry, "down");
    } else if (is_rack || entry.has("to")) {
      given_speed_of(entry, "speed");
    }
    return one;
  }

  static double given_speed_of(const Value& entry, std::string_view key) {
    return entry.has(key) ? speed_of(entry, key) : entry.member(key).speed();
  }

  void check_ends(std::string_view key, const std::vector<Switch>& list) {
    std::size_t i = 0;
    each(key, [&](const Value& entry) {
      const Switch& one = list[i++];
      if (one.to.empty() && one.name == kCoreName && one.up > 0) {
        entry.member("name").refuse(kNotCore);
      }
      if (one.to.empty()) return;
      if (one.to != one.name && switches_.count(one.to) > 0) return;
      entry.member("to").refuse("the name of another rack or switch of this file");
    });
  }

  Machine machine_of(const Value& entry) {
    entry.expect_object(
        {"name", "role", "address", "interface", "nic", "in", "out", "sum", "rack"});
    Machine machine;
    const Value name = entry.member("name");
    machine.name = name.text(kLongestText);
    if (!places_.try_emplace(machine.name, places_.size()).second || machine.name.empty() ||
        switches_.count(machine.name) > 0) {
      name.refuse("a name that no other machine, rack or switch has, and not empty");
    }
    machine.role = static_cast<Role>(entry.member("role").word({"worker", "helper"}));
    machine.address = text_of(entry, "address");
    machine.interface = text_of(entry, "interface");
    machine.nic = speed_of(entry, "nic");
    machine.in = speed_of(entry, "in");
    machine.out = speed_of(entry, "out");
    machine.sum = speed_of(entry, "sum");
    machine.rack = text_of(entry, "rack");
    const auto rack = switches_.find(machine.rack);
    if (entry.has("rack") && (rack == switches_.end() || !rack->second)) {
      entry.member("rack").refuse("the name of one of the racks");
    }
    return machine;
  }

  MachinePair pair_of(const Value& entry) {
    entry.expect_object({"from", "to", "speed"});
    const auto place = [&](const char* key) {
      const Value value = entry.member(key);
      const auto found = places_.find(value.text(kLongestText));
      if (found != places_.end()) return found->second;
      value.refuse("the name of one of the machines");
      return std::size_t{0};
    };
    MachinePair pair;
    pair.from = place("from");
    pair.to = place("to");
    pair.speed = speed_of(entry, "speed");
    if (pair.from == pair.to) entry.refuse("a pair of two machines");
    if (pair.speed == 0) entry.member("speed").refuse("bytes per second");
    return pair;
  }

  const Value& file_;
  Mistake& mistake_;
  MachineFile read_;
  Places places_;
  std::map<std::string, bool> switches_;  // by name: whether it is a rack
};

json known(const Machine& machine) {
  json entry = {{"name", machine.name}, {"role", role_name(machine.role)}};
  if (!machine.address.empty()) entry["address"] = machine.address;
  if (!machine.interface.empty()) entry["interface"] = machine.interface;
  if (!machine.rack.empty()) entry["rack"] = machine.rack;
  for (const auto& [key, speed] : {std::pair{"nic", machine.nic},
                                   {"in", machine.in},
                                   {"out", machine.out},
                                   {"sum", machine.sum}}) {
    if (speed > 0) entry[key] = std::round(speed);
  }
  return entry;
}

std::string line(const json& entry, bool last) {
  return "  " + entry.dump(-1, ' ', false, json::error_handler_t::replace) + (last ? "\n" : ",\n");
}

// Nothing where there are none: most files have only machines and pairs.
std::string lines_of(std::string_view key, const std::vector<Switch>& list) {
  if (list.empty()) return {};
  std::string text = fmt::format(" \"{}\":[\n", key);
  for (const Switch& one : list) {
    json entry = {{"name", one.name}};
    if (!one.to.empty()) entry["to"] = one.to;
    if (one.up > 0) {
      entry["up"] = std::round(one.up);
      entry["down"] = std::round(one.down);
    }
    text += line(entry, &one == &list.back());
  }
  return text + " ],\n";
}

}  // namespace

Result<MachineFile> read_machines(std::string_view text) {
  const auto document = parse_document(text, kMaxMachinesBytes);
  if (!document) return document.error();
  Mistake mistake;
  const Value file(*document, mistake);
  MachineFile read = MachinesReader(file, mistake).read();
  if (mistake.any()) return Error{Status::kInvalidArgument, mistake.text()};
  return read;
}

std::string write_machines(const MachineFile& file) {
  std::string text =
      fmt::format("{{\"fmt\":\"{}\",\n{}{} \"machines\":[\n", kMachinesFormat,
                  lines_of("racks", file.racks), lines_of("switches", file.switches));
  for (std::size_t i = 0; i < file.machines.size(); ++i) {
    text += line(known(file.machines[i]), i + 1 == file.machines.size());
  }
  text += " ],\n \"pairs\":[\n";
  for (std::size_t i = 0; i < file.pairs.size(); ++i) {
    const MachinePair& pair = file.pairs[i];
    text += line({{"from", file.machines[pair.from].name},
                  {"to", file.machines[pair.to].name},
                  {"speed", std::round(pair.speed)}},
                 i + 1 == file.pairs.size());
  }
  return text + " ]}\n";
}

Result<Vertex> vertex_of(const Machine& machine) {
  Vertex vertex;
  vertex.role = machine.role;
  vertex.name = machine.name;
  vertex.in = machine.in > 0 ? machine.in : machine.nic;
  vertex.out = machine.out > 0 ? machine.out : machine.nic;
  if (machine.sum > 0) vertex.sum = machine.sum;
  if (vertex.in > 0 && vertex.out > 0) return vertex;
  return Error{
      Status::kInvalidArgument,
      fmt::format("machine \"{}\": its speed is not known: measure it (tallyctl probe), or "
                  "give it \"in\" and \"out\", or \"nic\", in bytes per second",
                  machine.name)};
}

}  // namespace tally::plan
