// A tallyd and its ranks as processes of their own, for tests that kill, stop and damage them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/fault/process.h"
#include "tests/support/tier.h"

namespace tally::testing {

// What a process holds that sessions come with.
struct Footprint {
  std::size_t descriptors = 0;
  std::size_t shared_mappings = 0;  // of memfds
};
Footprint footprint(pid_t process);

class Cluster {
 public:
  // Starts the node. Throws when it does not become ready.
  explicit Cluster(const std::string& step = "");
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // In the place of the node that is there. `step`: $TALLY_DEBUG_STEP, of the node alone.
  void start_node(const std::string& step = "", const std::vector<std::string>& flags = {});

  struct RankOptions {
    std::string step = {};             // $TALLY_DEBUG_STEP
    std::uint64_t elements = 1 << 24;  // of in and out, each
    std::uint32_t connect_ms = 0;      // 0: libtally's default
  };
  std::unique_ptr<Process> rank(int rank, int ranks, const std::string& job = "train") const;
  std::unique_ptr<Process> rank(int rank, int ranks, const std::string& job,
                                const RankOptions& options) const;
  // All ranks of a job, ready.
  std::vector<std::unique_ptr<Process>> job(int ranks, const std::string& name = "train") const;
  std::vector<std::unique_ptr<Process>> job(int ranks, const std::string& name,
                                            const RankOptions& options) const;

  // What it answers to a command.
  static std::string ask(Process& process, const std::string& command);

  // Waits until the node holds no more than when it was started; what it still holds after the
  // time, or nothing.
  std::string left_behind(int timeout_ms = 10'000) const;
  // Throws when the node does not answer.
  Footprint footprint_now() const;

  std::string directory;
  std::string address;
  std::unique_ptr<Process> node;
  Footprint at_start;  // of the node
};

}  // namespace tally::testing
