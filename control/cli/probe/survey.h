// `tallyctl probe`: makes nodes measure their machines and the network between them. It blocks,
// with a deadline on every request. It records each failure with the node and the reason, and
// continues.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "control/plan/json/machines_json.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control::probe {

struct SurveyOptions {
  std::string address;  // address of a node; the coordinator of its cluster gives the members
  std::vector<std::string> to;  // members by name or host, or addresses; empty: all with all
  net::tls::Credentials credentials{};  // for nodes over TCP
  double seconds = 1;                   // seconds that each measurement counts
  bool pairs = true;                    // also measure every pair alone; always done with `to`
  bool racks = false;                   // also search for racks; not with `to`
  Nanos timeout = 0;                    // time limit for answers without a measurement
};

struct Survey {
  plan::MachineFile file;
  std::vector<std::string> errors;
  std::vector<std::string> notes;  // facts that limit the use of the figures
};

// Calls `progress` with each measurement that begins. Returns an error when it cannot find the
// nodes to measure.
Result<Survey> survey(const SurveyOptions& options,
                      const std::function<void(const std::string&)>& progress);

}  // namespace tally::control::probe
