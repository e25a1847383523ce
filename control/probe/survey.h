// `tallyctl probe`: has nodes measure their machines and the network between them. Blocks, with a
// deadline on everything; what fails is noted with who and why, and the rest goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/rpc_channel.h"
#include "control/plan/machines_json.h"

namespace tally::control::probe {

struct SurveyOptions {
  std::string address;          // of a node: its cluster's members are those of its coordinator
  std::vector<std::string> to;  // members by name or host, or addresses; empty: all with all
  std::string token;            // the cluster's
  double seconds = 1;           // that each measurement counts
  bool pairs = true;            // measure every pair by itself, too
  Nanos patience = 0;           // for answers that take no measuring
};

struct Survey {
  plan::MachineFile file;
  std::vector<std::string> errors;
  std::vector<std::string> notes;  // what to know before the figures are used
};

// `progress` hears what is being measured. An error: nothing could be.
Result<Survey> survey(const SurveyOptions& options,
                      const std::function<void(const std::string&)>& progress);

// Pairs that are slower than both machines' NICs by more than a tenth: between them is something
// that binds, so the network has no full bisection. In words, one for each, the slowest first.
std::vector<std::string> narrow_pairs(const plan::MachineFile& file);

}  // namespace tally::control::probe
