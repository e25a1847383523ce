// A tallyd and its ranks as separate processes, for tests that kill, stop and damage them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/tallyd.h"
#include "tests/support/tier.h"

namespace tally::testing {

// Resources of a process that grow with its sessions.
struct Footprint {
  std::size_t descriptors = 0;
  std::size_t shared_mappings = 0;  // mappings of memfds
};
Footprint footprint(pid_t process);

class Cluster {
 public:
  // Starts the node. Throws when it does not become ready.
  explicit Cluster(const std::string& step = "") { start_node(step); }

  // Replaces the present node. step is the value of $TALLY_DEBUG_STEP, for the node only.
  void start_node(const std::string& step = "", const std::vector<std::string>& flags = {});

  struct RankOptions {
    std::string step = {};             // $TALLY_DEBUG_STEP
    std::uint64_t elements = 1 << 24;  // elements of in, and of out
    std::uint32_t connect_ms = 0;      // 0 means libtally's default
  };
  std::unique_ptr<Process> rank(int rank, int ranks, const std::string& job = "train") const;
  std::unique_ptr<Process> rank(int rank, int ranks, const std::string& job,
                                const RankOptions& options) const;
  // Starts all ranks of a job, and waits until they are ready.
  std::vector<std::unique_ptr<Process>> job(int ranks, const std::string& name = "train") const;
  std::vector<std::unique_ptr<Process>> job(int ranks, const std::string& name,
                                            const RankOptions& options) const;

  // Sends the process a command; returns the answer.
  static std::string ask(Process& process, const std::string& command);

  // Waits until the node holds no more resources than at its start. Returns what it still holds
  // after the timeout, or "".
  std::string left_behind(int timeout_ms = 10'000) const;
  // Throws when the node does not answer.
  Footprint footprint_now() const;

  Tallyd node;
  const std::string& address = node.address();
  Footprint at_start;  // of the node
};

}  // namespace tally::testing
