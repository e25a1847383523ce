#include "control/plan/json/machines_json.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>

#include "control/plan/json/document.h"

namespace tally::plan {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestText = 256;  // bytes
constexpr double kMaxSpeed = 1e15;         // the same as in plans

double speed_of(const Value& machine, std::string_view key) {
  if (!machine.has(key)) return 0;
  const Value value = machine.member(key);
  const double speed = value.number();
  if (std::isfinite(speed) && speed >= 1 && speed <= kMaxSpeed) return speed;
  value.refuse("bytes per second, 1 to 1e15; leave it out where it is unknown");
  return 0;
}

std::string text_of(const Value& machine, std::string_view key) {
  return machine.has(key) ? machine.member(key).text(kLongestText) : std::string();
}

using Places = std::map<std::string, std::size_t>;  // index of a machine, by name

Machine machine_of(const Value& entry, Places& places) {
  entry.expect_object({"name", "role", "address", "interface", "nic", "in", "out", "sum"});
  Machine machine;
  const Value name = entry.member("name");
  machine.name = name.text(kLongestText);
  if (!places.try_emplace(machine.name, places.size()).second || machine.name.empty()) {
    name.refuse("a name that no other machine has, and not empty");
  }
  machine.role = static_cast<Role>(entry.member("role").word({"worker", "helper"}));
  machine.address = text_of(entry, "address");
  machine.interface = text_of(entry, "interface");
  machine.nic = speed_of(entry, "nic");
  machine.in = speed_of(entry, "in");
  machine.out = speed_of(entry, "out");
  machine.sum = speed_of(entry, "sum");
  return machine;
}

MachinePair pair_of(const Value& entry, const Places& places) {
  entry.expect_object({"from", "to", "speed"});
  const auto place = [&](const char* key) {
    const Value value = entry.member(key);
    const auto found = places.find(value.text(kLongestText));
    if (found != places.end()) return found->second;
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

json known(const Machine& machine) {
  json entry = {{"name", machine.name}, {"role", role_name(machine.role)}};
  if (!machine.address.empty()) entry["address"] = machine.address;
  if (!machine.interface.empty()) entry["interface"] = machine.interface;
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

}  // namespace

Result<MachineFile> read_machines(std::string_view text) {
  const auto document = parse_document(text, kMaxMachinesBytes);
  if (!document) return document.error();
  Mistake mistake;
  const Value file(*document, mistake);
  file.expect_object({"fmt", "machines", "pairs"});
  if (mistake.any()) return Error{Status::kInvalidArgument, mistake.text()};
  file.member("fmt").word({kMachinesFormat});
  MachineFile read;
  Places places;
  const Value machines = file.member("machines");
  const std::size_t count = machines.size(kMaxVertices);
  for (std::size_t i = 0; i < count && !mistake.any(); ++i) {
    read.machines.push_back(machine_of(machines.entry(i), places));
  }
  if (file.has("pairs")) {
    const Value pairs = file.member("pairs");
    const std::size_t most = pairs.size(kMaxLinks);
    for (std::size_t i = 0; i < most && !mistake.any(); ++i) {
      read.pairs.push_back(pair_of(pairs.entry(i), places));
    }
  }
  if (mistake.any()) return Error{Status::kInvalidArgument, mistake.text()};
  return read;
}

std::string write_machines(const MachineFile& file) {
  std::string text = fmt::format("{{\"fmt\":\"{}\",\n \"machines\":[\n", kMachinesFormat);
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
