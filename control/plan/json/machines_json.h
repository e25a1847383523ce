// The file of machines and their measurements, "tally-machines/1". docs/planning.md has every key.
// `tallyctl probe` writes it, and `tallyctl plan make` and tally-perf read it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/plan/model/network.h"

namespace tally::plan {

inline constexpr std::string_view kMachinesFormat = "tally-machines/1";
inline constexpr std::size_t kMaxMachinesBytes = 16 << 20;

// The switch above the racks and switches that name no other. Files need not list it.
inline constexpr std::string_view kCoreName = "core";

// What messages advise: for a rack that is named "core", and for machines that links do not reach.
inline constexpr std::string_view kNotCore =
    "another name, because \"core\" is the switch above racks";
inline constexpr std::string_view kJoinSwitches =
    "give the racks and switches between them \"to\" and \"speed\", or \"up\" and \"down\"";

// Speeds are bytes per second, above 0. The value 0 means unknown.
struct Machine {
  std::string name;
  Role role = Role::kWorker;  // never a switch
  std::string address;        // of its node; empty when it has none
  std::string interface;      // at which its node listens
  double nic = 0;             // speed that the kernel declares, each way
  double in = 0;              // measured, from all other machines at once
  double out = 0;             // measured, to all other machines at once
  double sum = 0;             // measured, bytes of input that it can sum
  std::string rack{};         // name of its rack; empty: none
};

// A rack, whose machines are joined to one switch, or a switch above racks.
struct Switch {
  std::string name;
  std::string to;   // name of the rack or switch above it; empty: "core"
  double up = 0;    // speed of the link to it; 0: it has none, which a rack always has
  double down = 0;  // speed of the link from it
};

// The measured speed from one machine to one other, while the other sends back as fast as it can.
// No further machine takes part.
struct MachinePair {
  std::size_t from = 0;  // indices in the list of machines
  std::size_t to = 0;
  double speed = 0;
};

struct MachineFile {
  std::vector<Machine> machines;  // each name is unique
  std::vector<MachinePair> pairs;
  std::vector<Switch> racks{};     // no name is also that of a machine or of another switch
  std::vector<Switch> switches{};  // above racks; "core" need not be listed
};

// Parses and validates the text. An error names the place, the value and what it must be. Never
// throws.
Result<MachineFile> read_machines(std::string_view text);

// Writes one line for each machine and pair. read_machines() of the text gives the same file, with
// speeds rounded to whole bytes per second.
std::string write_machines(const MachineFile& file);

// Returns the machine as planners need it: with measured speeds, or else with the speed that the
// kernel declares. Returns an error when its speed is unknown. The error says how to measure it.
Result<Vertex> vertex_of(const Machine& machine);

}  // namespace tally::plan
