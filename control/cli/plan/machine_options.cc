#include "control/cli/plan/machine_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/speed.h"
#include "control/cli/plan/plan_files.h"
#include "control/plan/json/machines_json.h"
#include "control/plan/json/plan_json.h"

namespace tally::control {
namespace {

// Parses "a=100Gbit,sum=20GB" of an option.
Result<plan::Vertex> parse_machine(const char* option, plan::Role role, const std::string& text) {
  const auto bad = [&](const std::string& what) {
    return Error{Status::kInvalidArgument, fmt::format("{} {}: {}", option, text, what)};
  };
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return bad("must be NAME=SPEED or NAME=SPEED,sum=SPEED, like a=100Gbit");
  }
  plan::Vertex machine;
  machine.role = role;
  machine.name = text.substr(0, equals);
  if (equals > plan::kLongestName) {
    return bad(
        fmt::format("the name has {} bytes; must be at most {}", equals, plan::kLongestName));
  }
  std::string speed = text.substr(equals + 1);
  if (const auto comma = speed.find(','); comma != std::string::npos) {
    const std::string more = speed.substr(comma + 1);
    if (!more.starts_with("sum=")) {
      return bad(fmt::format("\"{}\" must be sum=SPEED, what it can sum", more));
    }
    const auto sum = parse_speed(std::string_view(more).substr(4));
    if (!sum) return bad(sum.error().message);
    machine.sum = *sum;
    speed.resize(comma);
  }
  const auto nic = parse_speed(speed);
  if (!nic) return bad(nic.error().message);
  machine.in = machine.out = *nic;
  return machine;
}

// Adds the machines of the file that `tallyctl probe` writes.
Outcome add_measured(const std::string& path, std::vector<plan::Vertex>& machines) {
  const auto bad = [&](const std::string& what) {
    return Error{Status::kInvalidArgument, fmt::format("--machines {}: {}", path, what)};
  };
  const auto text = read_file(path, "the file that tallyctl probe --out wrote");
  if (!text) return Error{Status::kInvalidArgument, "--machines " + text.error().message};
  const auto file = plan::read_machines(*text);
  if (!file) return bad(file.error().message);
  for (const plan::Machine& one : file->machines) {
    auto machine = plan::vertex_of(one);
    if (!machine) return bad(machine.error().message);
    machines.push_back(std::move(machine).value());
  }
  return Unit{};
}

}  // namespace

Result<std::vector<plan::Vertex>> parse_machines(const std::string& measured,
                                                 const std::vector<std::string>& workers,
                                                 const std::vector<std::string>& helpers) {
  std::vector<plan::Vertex> machines;
  if (!measured.empty()) {
    if (auto added = add_measured(measured, machines); !added) return added.error();
  }
  const auto add = [&](const char* option, plan::Role role,
                       const std::vector<std::string>& texts) -> Outcome {
    for (const std::string& text : texts) {
      auto machine = parse_machine(option, role, text);
      if (!machine) return machine.error();
      const bool known = std::any_of(machines.begin(), machines.end(), [&](const auto& other) {
        return other.name == machine->name;
      });
      if (known) {
        return Error{Status::kInvalidArgument,
                     fmt::format("{} {}: another machine is called {}; give each its own name",
                                 option, text, machine->name)};
      }
      machines.push_back(std::move(machine).value());
    }
    return Unit{};
  };
  if (auto added = add("--worker", plan::Role::kWorker, workers); !added) return added.error();
  if (auto added = add("--helper", plan::Role::kHelper, helpers); !added) return added.error();
  return machines;
}

}  // namespace tally::control
