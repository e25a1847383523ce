// Which CPUs the nodes of one host have taken for their shards: two shards on one core, while
// another core waits for both, take twice the time.
//
// A claim is a bound name in the kernel's table of abstract sockets: it needs no privilege and no
// file, and is gone with its process. Nodes in other network namespaces are not seen, nor are
// claims on CPUs that this process may not use.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/fd.h"

namespace tally::control {

// Those that this thread may run on, by the kernel's numbers.
std::vector<int> usable_cpus();

// Used by one thread at a time.
class CpuClaims {
 public:
  // `names`: what they begin with, for tests that want to be among themselves.
  explicit CpuClaims(std::string names = "tally-cpu") : names_(std::move(names)) {}

  // `count` of these CPUs, those that the fewest others have first and else in this order; where
  // there are more shards than CPUs, some twice. Others who have a claim on one of `cpus` hear of
  // it. Fewer: the kernel gives no names, or too many nodes are here.
  std::vector<int> take(std::span<const int> cpus, std::size_t count);

  // Of these CPUs, those that others have.
  std::vector<int> of_others(std::span<const int> cpus) const;

  // The shards of all nodes that have claims on these CPUs are more than the CPUs: one is claimed
  // twice.
  bool crowded(std::span<const int> cpus) const;

  // Moves the latest claim to a CPU that nobody has, where there is one by now and it is not alone
  // on its own. The CPU of the latest claim. Precondition: there is a claim.
  int settle(std::span<const int> cpus);

  // Readable when others have come; hear() empties it. Of the latest claim, or -1.
  int fd() const { return claims_.empty() ? -1 : claims_.back().socket.get(); }
  void hear() const;

 private:
  // How often a CPU can be claimed.
  static constexpr int kTimes = 4;

  struct Claim {
    int cpu = 0;
    int time = 0;  // 0: the first to claim it
    UniqueFd socket;
  };

  bool is_mine(int cpu, int time) const;
  bool is_taken(int cpu, int time) const;
  bool claim(int cpu, int time);
  void tell_others(std::span<const int> cpus) const;

  std::string names_;
  std::vector<Claim> claims_;
};

}  // namespace tally::control
