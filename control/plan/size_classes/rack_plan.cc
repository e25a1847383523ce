#include "control/plan/size_classes/rack_plan.h"

#include <vector>

#include "control/plan/json/machine_network.h"
#include "control/plan/json/served.h"
#include "control/plan/size_classes/sized_plan.h"

namespace tally::plan {

Result<Plan> plan_for_racks(const MachineFile& file) {
  const auto network = network_of(file);
  if (!network) return network.error();
  std::vector<VertexId> workers;
  for (VertexId id = 0; id < network->machines(); ++id) {
    if (network->vertices[id].role == Role::kWorker) workers.push_back(id);
  }
  if (workers.size() < 2) {
    return Error{Status::kRefused,
                 "trees for racks need two machines with workers: give their nodes the role worker "
                 "(cluster.role)"};
  }
  SizeOptions options;
  options.packing.epoch = 0;
  auto plan = plan_by_size(*network, workers, options);
  if (!plan) return plan;
  if (auto served = check_served(*plan); !served) return served.error();
  return plan;
}

}  // namespace tally::plan
