#include "control/plan/pipeline/gpu_order.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tally::plan::pipeline {
namespace {

using Server = std::vector<std::size_t>;  // its GPUs, the fastest first

std::vector<Server> servers_of(const Cluster& cluster) {
  std::map<std::size_t, Server> by_number;
  for (std::size_t i = 0; i < cluster.gpus.size(); ++i) {
    by_number[cluster.gpus[i].server].push_back(i);
  }
  std::vector<Server> servers;
  for (auto& [number, gpus] : by_number) {
    std::stable_sort(gpus.begin(), gpus.end(), [&](std::size_t a, std::size_t b) {
      return cluster.gpus[a].speed > cluster.gpus[b].speed;
    });
    servers.push_back(std::move(gpus));
  }
  return servers;
}

bool is_same_gpu(const Gpu& a, const Gpu& b) {
  return a.type == b.type && a.speed == b.speed && a.memory == b.memory;
}

// Whether nothing changes when the two servers change places.
bool are_alike(const Cluster& cluster, const Server& a, const Server& b) {
  if (a.size() != b.size()) return false;
  std::vector<std::size_t> swapped(cluster.gpus.size());
  std::iota(swapped.begin(), swapped.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!is_same_gpu(cluster.gpus[a[i]], cluster.gpus[b[i]])) return false;
    std::swap(swapped[a[i]], swapped[b[i]]);
  }
  for (const Server* server : {&a, &b}) {
    for (const std::size_t gpu : *server) {
      for (std::size_t other = 0; other < cluster.gpus.size(); ++other) {
        if (other == gpu) continue;
        if (cluster.between(gpu, other) != cluster.between(swapped[gpu], swapped[other])) {
          return false;
        }
      }
    }
  }
  return true;
}

// Returns for each server the first server that is like it, which may be itself.
std::vector<std::size_t> kinds_of(const Cluster& cluster, const std::vector<Server>& servers) {
  std::vector<std::size_t> kinds(servers.size());
  for (std::size_t i = 0; i < servers.size(); ++i) {
    kinds[i] = i;
    for (std::size_t before = 0; before < i; ++before) {
      if (kinds[before] != before || !are_alike(cluster, servers[before], servers[i])) continue;
      kinds[i] = before;
      break;
    }
  }
  return kinds;
}

// The number of different permutations, or more than `most`.
std::size_t count_permutations(std::vector<std::size_t> kinds, std::size_t most) {
  std::sort(kinds.begin(), kinds.end());
  double orders = 1;
  std::size_t same = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    same = i > 0 && kinds[i] == kinds[i - 1] ? same + 1 : 1;
    orders = orders * static_cast<double>(i + 1) / static_cast<double>(same);
  }
  return orders > static_cast<double>(most) ? most + 1 : static_cast<std::size_t>(orders + 0.5);
}

// Servers in the order in which a maximum spanning tree of their bandwidth is walked: Prim's
// algorithm from the first server, then depth first, the fastest link first.
std::vector<std::size_t> tree_order(const Cluster& cluster, const std::vector<Server>& servers) {
  const std::size_t count = servers.size();
  const auto speed = [&](std::size_t a, std::size_t b) {
    return cluster.between(servers[a][0], servers[b][0]);
  };
  std::vector<std::vector<std::size_t>> children(count);
  std::vector<std::size_t> parent(count, 0);
  std::vector<bool> is_joined(count, false);
  is_joined[0] = true;
  for (std::size_t joined = 1; joined < count; ++joined) {
    std::size_t next = count;
    for (std::size_t i = 0; i < count; ++i) {
      if (is_joined[i]) continue;
      if (next == count || speed(i, parent[i]) > speed(next, parent[next])) next = i;
    }
    is_joined[next] = true;
    children[parent[next]].push_back(next);
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_joined[i] && speed(i, next) > speed(i, parent[i])) parent[i] = next;
    }
  }
  std::vector<std::size_t> walked;
  std::vector<std::size_t> open = {0};
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    walked.push_back(at);
    // Prim's algorithm joins the children of a server by falling speed, so the first goes on top.
    for (std::size_t i = children[at].size(); i-- > 0;) open.push_back(children[at][i]);
  }
  return walked;
}

class Search {
 public:
  Search(const std::vector<Server>& servers, const TimeOfOrder& time_of, std::size_t most)
      : servers_(servers), time_of_(time_of), most_(most) {}

  bool has_calls_left() const { return result_.tried < most_; }
  OrderSearch& result() { return result_; }

  // Returns whether the order of servers is better than all before.
  bool try_order(const std::vector<std::size_t>& order) {
    std::vector<std::size_t> gpus;
    for (const std::size_t server : order) {
      gpus.insert(gpus.end(), servers_[server].begin(), servers_[server].end());
    }
    ++result_.tried;
    const double time = time_of_(gpus, result_.time);
    if (time >= result_.time) return false;
    result_.time = time;
    result_.order = std::move(gpus);
    return true;
  }

 private:
  const std::vector<Server>& servers_;
  const TimeOfOrder& time_of_;
  const std::size_t most_;
  OrderSearch result_;
};

void try_every_order(const std::vector<std::size_t>& kinds, Search& search) {
  // Permutations of kinds; each kind stands for its servers by ascending number.
  std::vector<std::size_t> order = kinds;
  std::sort(order.begin(), order.end());
  do {
    std::map<std::size_t, std::size_t> used;
    std::vector<std::size_t> servers;
    for (const std::size_t kind : order) {
      std::size_t skip = used[kind]++;
      std::size_t server = kind;
      for (; skip > 0; --skip) {
        do ++server;
        while (kinds[server] != kind);
      }
      servers.push_back(server);
    }
    search.try_order(servers);
  } while (std::next_permutation(order.begin(), order.end()));
}

void exchange_servers(std::vector<std::size_t> order, const std::vector<std::size_t>& kinds,
                      Search& search) {
  search.try_order(order);
  for (bool is_better = true; is_better;) {
    is_better = false;
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t j = i + 1; j < order.size(); ++j) {
        if (kinds[order[i]] == kinds[order[j]]) continue;
        if (!search.has_calls_left()) return;
        std::swap(order[i], order[j]);
        if (search.try_order(order)) {
          is_better = true;
        } else {
          std::swap(order[i], order[j]);
        }
      }
    }
  }
}

}  // namespace

std::size_t count_orders(const Cluster& cluster, std::size_t most) {
  return count_permutations(kinds_of(cluster, servers_of(cluster)), most);
}

OrderSearch best_order(const Cluster& cluster, const TimeOfOrder& time_of, std::size_t most) {
  const std::vector<Server> servers = servers_of(cluster);
  const std::vector<std::size_t> kinds = kinds_of(cluster, servers);
  Search search(servers, time_of, most);
  if (count_permutations(kinds, most) <= most) {
    try_every_order(kinds, search);
    search.result().is_exhaustive = true;
  } else {
    exchange_servers(tree_order(cluster, servers), kinds, search);
  }
  return search.result();
}

}  // namespace tally::plan::pipeline
