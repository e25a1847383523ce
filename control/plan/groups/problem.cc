#include "control/plan/groups/problem.h"

#include <fmt/format.h>

namespace tally::plan::groups {
namespace {

Outcome check_number(std::string_view place, double value, double least, double most) {
  if (value >= least && value <= most) return Unit{};
  return invalid(fmt::format("{} = {}: must be {} to {}", place, value, least, most));
}

}  // namespace

Outcome check(const Problem& problem, const Limits& limits) {
  if (problem.workers.empty() || problem.workers.size() > kMaxWorkers) {
    return invalid(fmt::format("{} workers: must be 1 to {}; let one stand for several equal ones",
                               problem.workers.size(), kMaxWorkers));
  }
  for (std::size_t i = 0; i < problem.workers.size(); ++i) {
    const auto step =
        check_number(fmt::format("workers[{}].step", i), problem.workers[i].step, 1e-9, 1e9);
    if (!step) return step;
  }
  if (auto bytes = check_number("bytes", problem.bytes, 0, 1e15); !bytes) return bytes;
  if (auto nic = check_number("nic", problem.nic, 1e-9, 1e15); !nic) return nic;
  if (auto server = check_number("server", problem.server, 1e-9, 1e15); !server) return server;
  if (auto batch = check_number("batch", problem.batch, 1e-9, 1e9); !batch) return batch;
  if (limits.staleness && *limits.staleness > kMaxStaleness) {
    return invalid(
        fmt::format("staleness = {}: must be 0 to {}", *limits.staleness, kMaxStaleness));
  }
  if (limits.local_steps < 1 || limits.local_steps > kMaxLocalSteps) {
    return invalid(
        fmt::format("local steps = {}: must be 1 to {}", limits.local_steps, kMaxLocalSteps));
  }
  return Unit{};
}

}  // namespace tally::plan::groups
