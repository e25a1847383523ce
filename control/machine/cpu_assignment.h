// Which core and which memory node each shard gets: near the NIC whose bytes it moves. Pure: a
// description of the machine in, places out.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

namespace tally::control {

// The cores, memory nodes and NICs of a machine, as far as this process may use them.
struct Hardware {
  struct Core {
    std::vector<int> cpus;  // its hardware threads, by the kernel's numbers
    int node = 0;           // memory node
  };
  std::vector<Core> cores;
  std::map<std::string, int, std::less<>> nics;  // the memory node of each interface that has one

  std::size_t cpus() const;
  // True when this process may use cores of more than one memory node.
  bool has_nodes() const;
};

struct CpuAssignment {
  int cpu = 0;
  int node = 0;
};

inline constexpr int kNoNode = -1;

// By shard: a CPU that no other shard has. In order of preference: a CPU of an unused core at the
// shard's NIC; of any unused core; of a core at its NIC that a shard uses; of any core. Shards
// whose NIC has a known node choose first. nics: the interface of each shard; an unknown one gives
// no preference. taken: CPUs that other nodes have; they are used like any other when the rest do
// not suffice.
//
// Returns an empty vector when there is nothing to choose: one memory node, no NIC with a known
// node, or fewer CPUs than shards.
std::vector<CpuAssignment> place_shards(const Hardware& hardware, std::span<const std::string> nics,
                                        std::span<const int> taken = {});

// The memory node of an interface; kNoNode when unknown.
int node_of_nic(const Hardware& hardware, std::string_view nic);

}  // namespace tally::control
