// For tests: the coordinator of a job, as far as it decides about the job's versions. The test
// chooses when a change or an attempt of a repair begins, and its nodes, as a planner would.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "control/coordinator/state/jobs/job_versions.h"
#include "control/coordinator/state/memory_store.h"

namespace tally::traces {

class TracedCoordinator {
 public:
  // The first version runs at these nodes: by part, numbers from 0.
  TracedCoordinator(std::uint16_t ranks, std::uint32_t nodes,
                    const std::vector<std::uint32_t>& owners);

  void begin(std::uint32_t epoch, const std::vector<std::uint32_t>& owners);
  void lose(std::uint32_t node);
  // A node that was lost joins again.
  void join(std::uint32_t node);
  // A report of a rank, in the form of job.report.
  void report(std::uint16_t rank, const nlohmann::json& report);
  void close(std::uint16_t rank);
  // Time passes, until a change takes too long.
  void time_out();

  // What it has done since the last call, as lines of a trace.
  std::vector<std::string> take_events();
  // Takes the oldest message to the rank, in the form of an answer to job.next.
  std::optional<nlohmann::json> take_message(std::uint16_t rank);

 private:
  control::JobRecord record(std::uint32_t epoch, const std::vector<std::uint32_t>& owners) const;
  static control::Ticket ticket_of(std::uint16_t rank) { return rank + 1U; }
  void act();
  void send_news();
  void note(const control::RankNotification& notification);

  std::uint16_t ranks_;
  Nanos now_ = 1000 * kSecond;
  control::MemoryStore store_;
  control::JobTable jobs_{store_};
  control::NewsQueue news_;
  control::JobVersions versions_{jobs_, news_};
  std::vector<control::NodeId> members_;  // by node: its present number
  control::NodeId last_member_ = 0;
  std::vector<std::string> events_;
  std::vector<std::deque<nlohmann::json>> messages_;  // by rank
};

}  // namespace tally::traces
