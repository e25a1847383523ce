// Which CPUs the nodes of one host have claimed for their shards. Two shards on one core take twice
// the time, even while another core is idle.
//
// A claim is a bound name among the kernel's abstract sockets. It needs no privilege and no file,
// and ends with its process. Nodes in other network namespaces are invisible. So are claims on CPUs
// that this process may not use.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/system/fd.h"

namespace tally::control {

// The CPUs that this thread may run on, by the kernel's numbers.
std::vector<int> usable_cpus();

// Used by one thread at a time.
class CpuClaims {
 public:
  // names is the prefix of the claims' names; tests set it to be separate from other nodes.
  explicit CpuClaims(std::string names = "tally-cpu") : names_(std::move(names)) {}

  // Claims `count` of these CPUs and returns them: first those with the fewest claims of other
  // nodes, then in the given order. With more shards than CPUs some CPUs come more than once. Nodes
  // with a claim on one of cpus are notified. The result is shorter when the kernel gives no names,
  // or when too many nodes are here.
  std::vector<int> take(std::span<const int> cpus, std::size_t count);

  // Those of these CPUs that other nodes have claimed.
  std::vector<int> of_others(std::span<const int> cpus) const;

  // True when some of these CPUs has two claims: the nodes have more shards than CPUs.
  bool crowded(std::span<const int> cpus) const;

  // Moves the latest claim to a CPU without a claim of another node, when another node shares its
  // CPU and such a CPU exists. Returns the CPU of the latest claim. Precondition: there is a claim.
  int settle(std::span<const int> cpus);

  // Becomes readable when another node has claimed CPUs; read_messages() reads it empty. It belongs
  // to the latest claim; -1 without a claim.
  int fd() const { return claims_.empty() ? -1 : claims_.back().socket.get(); }
  void read_messages() const;

 private:
  // The most claims on one CPU.
  static constexpr int kTimes = 4;

  struct Claim {
    int cpu = 0;
    int time = 0;  // 0 for the first claim of this CPU
    UniqueFd socket;
  };

  bool is_mine(int cpu, int time) const;
  bool is_taken(int cpu, int time) const;
  bool claim(int cpu, int time);
  void notify_others(std::span<const int> cpus) const;

  std::string names_;
  std::vector<Claim> claims_;
};

}  // namespace tally::control
