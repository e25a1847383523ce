#include "control/plan/pipeline/nic_load.h"

#include <algorithm>
#include <map>
#include <set>

namespace tally::plan::pipeline {
namespace {

// The share of the microbatches that each server's replicas of a stage get.
std::map<std::size_t, double> shares_of(const Cluster& cluster, const Options& options,
                                        const Profile& profile, const Stage& stage) {
  std::map<std::size_t, double> rates;
  double all = 0;
  for (const std::size_t index : stage.gpus) {
    const Gpu& gpu = cluster.gpus[index];
    double rate = 1;
    if (options.dispatch == Dispatch::kWeighted) {
      double seconds = 0;
      for (std::size_t block = stage.first_block; block < stage.end_block; ++block) {
        const Times& times = profile.blocks[block].times[gpu.type];
        seconds += times.forward + times.backward;
      }
      // Blocks without work go to any replica.
      rate = seconds > 0 ? gpu.speed / seconds : 1;
    }
    rates[gpu.server] += rate;
    all += rate;
  }
  for (auto& [server, rate] : rates) rate /= all;
  return rates;
}

double fastest_link(const Cluster& cluster, std::size_t server) {
  double fastest = 0;
  for (std::size_t u = 0; u < cluster.gpus.size(); ++u) {
    for (std::size_t v = 0; v < cluster.gpus.size(); ++v) {
      if (cluster.gpus[u].server != server || cluster.gpus[v].server == server) continue;
      fastest = std::max(fastest, cluster.between(u, v));
    }
  }
  return fastest;
}

class Loads {
 public:
  explicit Loads(const Cluster& cluster) {
    for (const Gpu& gpu : cluster.gpus) loads_[gpu.server].server = gpu.server;
    for (auto& [server, load] : loads_) load.speed = fastest_link(cluster, server);
  }

  void send(std::size_t from, std::size_t to, double bytes) {
    if (from == to) return;
    loads_[from].out += bytes;
    loads_[to].in += bytes;
  }

  // A ring over replicas, once in some microbatches.
  void sum(const Cluster& cluster, const Stage& stage, double weights, double microbatches) {
    std::set<std::size_t> servers;
    for (const std::size_t gpu : stage.gpus) servers.insert(cluster.gpus[gpu].server);
    if (servers.size() < 2) return;
    const auto r = static_cast<double>(stage.gpus.size());
    const double bytes = 2 * (r - 1) / r * weights / microbatches;
    for (const std::size_t server : servers) {
      loads_[server].out += bytes;
      loads_[server].in += bytes;
    }
  }

  std::vector<NicLoad> all() const {
    std::vector<NicLoad> found;
    if (loads_.size() < 2) return found;
    for (const auto& [server, load] : loads_) found.push_back(load);
    return found;
  }

 private:
  std::map<std::size_t, NicLoad> loads_;
};

}  // namespace

std::vector<NicLoad> nic_loads(const Profile& profile, const Cluster& cluster,
                               const Options& options, const Partition& partition) {
  Loads loads(cluster);
  std::map<std::size_t, double> before;
  for (const Stage& stage : partition.stages) {
    const auto shares = shares_of(cluster, options, profile, stage);
    for (const auto& [from, sent] : before) {
      for (const auto& [to, received] : shares) {
        const double bytes = sent * received * profile.blocks[stage.first_block - 1].output;
        loads.send(from, to, bytes);
        loads.send(to, from, bytes);  // the gradient
      }
    }
    double weights = 0;
    for (std::size_t block = stage.first_block; block < stage.end_block; ++block) {
      weights += profile.blocks[block].weights;
    }
    const double microbatches = options.objective == Objective::kIteration
                                    ? options.microbatches
                                    : static_cast<double>(stage.gpus.size()) * options.accumulate;
    loads.sum(cluster, stage, weights, microbatches);
    before = shares;
  }
  return loads.all();
}

}  // namespace tally::plan::pipeline
