// Which core and which memory each shard should have: near the NIC whose bytes it moves. Pure: a
// description of the machine in, places out.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

namespace tally::control {

// What of a machine belongs together, as far as this process may use it.
struct Hardware {
  struct Core {
    std::vector<int> cpus;  // its hardware threads, by the kernel's numbers
    int node = 0;           // of memory
  };
  std::vector<Core> cores;
  std::map<std::string, int, std::less<>>
      nics;  // the node that an interface is at, where it is at one

  std::size_t cpus() const;
  // The machine has several, and this process may use the cores of this one or that.
  bool has_nodes() const;
};

struct ShardPlace {
  int cpu = 0;
  int node = 0;
};

inline constexpr int kNoNode = -1;

// By shard: a CPU of its own. Of a core that is at the shard's NIC and that no shard has; else of
// any core that none has; else of one at its NIC that a shard shares; else of any. `nics`: the
// interface of each shard; one that is not known has no preference. Empty where there is nothing to
// choose: one node, no NIC whose node is known, or fewer CPUs than shards. `taken`: CPUs that
// others have; as good as any where the rest are not enough.
std::vector<ShardPlace> place_shards(const Hardware& hardware, std::span<const std::string> nics,
                                     std::span<const int> taken = {});

// The node that an interface is at; kNoNode: nobody knows.
int node_of_nic(const Hardware& hardware, std::string_view nic);

}  // namespace tally::control
