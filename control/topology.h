// The machine's topology, by hwloc: what belongs together, and memory that is bound to a node.
// Where the build has no hwloc, or hwloc finds nothing, there is none.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "control/shard_places.h"

namespace tally::control {

class Topology {
 public:
  // Of this machine, with the CPUs that this thread may use; null: unknown.
  static std::unique_ptr<Topology> of_this_machine();
  // Of a description in hwloc's XML, with these CPUs alone.
  static std::unique_ptr<Topology> of(const std::string& xml, std::span<const int> cpus);
  ~Topology();

  const Hardware& hardware() const { return hardware_; }

  // Moves the whole pages of this memory to the node, and keeps them there. False: the kernel does
  // not want to; the memory is as good as before.
  bool bind(std::span<std::byte> memory, int node) const;

  // Memory that this thread touches first is of the node of the latest at(); as before at its end.
  class Near {
   public:
    // Borrows it. Null: then it does nothing.
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
