// The machine's topology, from hwloc: cores, memory nodes and NICs, and memory bound to a node.
// There is none when the build has no hwloc, or when hwloc finds nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "control/machine/cpu_assignment.h"

namespace tally::control {

class Topology {
 public:
  // The topology of this machine, with the CPUs that this thread may use; null when unknown.
  static std::unique_ptr<Topology> of_this_machine();
  // The topology of a description in hwloc's XML, with these CPUs only.
  static std::unique_ptr<Topology> of(const std::string& xml, std::span<const int> cpus);
  ~Topology();

  const Hardware& hardware() const { return hardware_; }

  // Moves the whole pages of this memory to the memory node, and binds them there. Returns false
  // when the kernel refuses; the memory remains usable.
  bool bind(std::span<std::byte> memory, int node) const;

  // While it lives, memory that this thread touches first comes from the memory node of the latest
  // at(). Its destructor restores the policy.
  class Near {
   public:
    // Borrows the topology. With null it does nothing.
    explicit Near(const Topology* topology) : topology_(topology) {}
    ~Near();
    Near(const Near&) = delete;
    Near& operator=(const Near&) = delete;

    void at(int node);

   private:
    const Topology* topology_;
    bool changed_ = false;
  };

 private:
  struct Handle;
  explicit Topology(std::unique_ptr<Handle> handle);
  void describe(std::span<const int> cpus);

  std::unique_ptr<Handle> handle_;
  Hardware hardware_;
};

}  // namespace tally::control
