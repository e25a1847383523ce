// The file of machines and what was measured of them, "tally-machines/1" (docs/planning.md has
// every key): `tallyctl probe` writes it, `tallyctl plan make` and tally-perf read it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/plan/network.h"

namespace tally::plan {

inline constexpr std::string_view kMachinesFormat = "tally-machines/1";
inline constexpr std::size_t kMaxMachinesBytes = 16 << 20;

// Speeds are bytes per second, above 0; 0: unknown.
struct Machine {
  std::string name;
  Role role = Role::kWorker;  // no switch
  std::string address;        // of its node; empty: none
  std::string interface;      // that its node listens at
  double nic = 0;             // as the kernel declares it, each way
  double in = 0;              // measured, from all others at once
  double out = 0;             // to all others at once
  double sum = 0;             // of what it can sum, bytes of input
};

// What one machine alone sends another, while that one sends as much as it can.
struct MachinePair {
  std::size_t from = 0;  // places in the list of machines
  std::size_t to = 0;
  double speed = 0;
};

struct MachineFile {
  std::vector<Machine> machines;  // each with a name of its own
  std::vector<MachinePair> pairs;
};

// Parsing is validating: an error names the place, the value and what it must be. Never throws.
Result<MachineFile> read_machines(std::string_view text);

// A line for each machine and pair. read_machines() of it gives the same.
std::string write_machines(const MachineFile& file);

// As a planner wants it: with what was measured, else with what the kernel declares. An error: its
// speed is not known, and how to come to know it.
Result<Vertex> vertex_of(const Machine& machine);

}  // namespace tally::plan
