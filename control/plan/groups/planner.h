// Divides workers of unequal speed into groups that train asynchronously from each other.
//
// In the spirit of Kim et al. (Cluster Computing 2020): all-reduce in the groups, a parameter
// server across them, large mini-batches. docs/pipelines.md has the model. For a group g of n
// workers with h local steps:
//
//   period     = h * (slowest step) + bytes * sum_time + (if there are several groups) bytes / nic
//   throughput = sum over the groups of n * batch * h * rate,    rate <= 1 / period
//   server     : bytes * (sum of rates) <= server's speed, each way
//   staleness  = (rates of the other groups) / rate
//
// On a network where sum_time depends on the number of workers alone, some best grouping has
// consecutive workers of the order by speed: exchanging workers so that groups are consecutive
// raises no group's slowest step. So only such groupings are tried.
#pragma once

#include <vector>

#include "control/plan/groups/problem.h"

namespace tally::plan::groups {

struct Group {
  std::vector<std::size_t> workers;  // indices in Problem::workers, the fastest first
  std::uint32_t local_steps = 1;
  double period = 0;     // least seconds from one exchange to the next
  double rate = 0;       // exchanges per second
  double staleness = 0;  // exchanges of others between two of its own, on average
  // Factor of the learning rate that suits one worker's batch, by the linear rule: workers *
  // local_steps.
  double learning_rate = 1;
};

struct GroupPlan {
  std::vector<Group> groups;  // the fastest first
  double throughput = 0;      // samples per second
  double server_load = 0;     // share of the server's speed that is in use, each way
  // All workers in one group, without a server: the synchronous training for comparison.
  double sync_throughput = 0;
  double sync_idle = 0;  // share of the workers' time that they then wait for the slowest
  // Each worker a group of its own: the asynchronous parameter server for comparison. 0: the bound
  // of the staleness forbids it.
  double parameter_server_throughput = 0;

  // How much sooner than synchronous training it reaches the same loss. The upper end: staleness
  // costs nothing. The lower end: an exchange that others have overtaken on its way is worth less.
  // With G groups it is overtaken by G - 1 others in the mean, whatever the rates are, and is then
  // worth 1 / G of an exchange that was not overtaken. Local steps count as their samples.
  double most_speedup() const { return throughput / sync_throughput; }
  double least_speedup() const { return most_speedup() / static_cast<double>(groups.size()); }
};

// Returns the grouping of the highest throughput; of equal ones, the one with the fewest groups
// among the fast workers. Local steps are the fewest that let the server keep up, up to their
// limit: as long as it cannot, the group with the shortest period gets one more. Then groups wait.
// For up to limits.enumerated workers all groupings are tried, O(2^N N log N). Above it, dynamic
// programs with prices of an exchange give groupings, and changes of two borders improve several:
// the result may be below the best. Errors: an argument that check() refuses.
Result<GroupPlan> plan_groups(const Problem& problem, const Limits& limits);

}  // namespace tally::plan::groups
