// For tests: drives the units of a job through a trace: the sessions of its ranks
// (client/session/session.h), the shards of its nodes (dataplane/protocol/aggregator.h), and the
// versions of the job at its coordinator (control/coordinator/state/jobs/job_versions.h). It makes
// the choices of the trace, and compares everything else.
//
// The comparison tolerates what the model leaves open:
//   - the order of the outputs of one input;
//   - when a rank reports that it has moved to the next version. The library does so as soon as it
//     can, and the report waits until the trace has it;
//   - when a node sees that a rank has left. An eager contribution stays at the node, so the node
//     may use it until then. The model's node sees it at once, and so does the one here;
//   - when the application takes the completion of an eager operation. It takes it before the trace
//     does. When the rank sees a loss in between, and takes no message of the coordinator before
//     that, it takes it with the trace.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/model/job_entrance.h"
#include "tests/model/rank_channel.h"
#include "tests/model/trace.h"
#include "tests/model/traced_coordinator.h"
#include "tests/model/traced_layout.h"
#include "tests/model/traced_rank.h"
#include "tests/model/traced_shard.h"

namespace tally::traces {

// What all traces of a process share.
struct ReplayServers {
  CoordinatorListener coordinator;
  std::string node_address;  // of a process that answers session.close and region.register
};

class Replay : private JobEntrance {
 public:
  Replay(const Trace& trace, const ReplayServers& servers);
  ~Replay() override;

  // Throws Disagreement, with all that a person needs to look for the reason.
  void run();

 private:
  struct Rank {
    std::unique_ptr<TracedRank> traced;
    std::deque<nlohmann::json> reports{};  // that the coordinator has not taken
    std::deque<nlohmann::json> moved{};
    std::deque<Delivery> kept_back{};  // completions that arrive just before an interruption
    bool leaves_completions = false;   // the application does not take them yet
    std::uint32_t now = 1;             // versions
    std::uint32_t old = 0;
    bool interrupted = false;
    bool over = false;
    bool alone = false;
  };

  client::JobEntry enter(std::uint16_t rank, std::uint32_t epoch) override;
  void make_version(std::uint32_t epoch);
  TracedShard& shard(const Line& line) const;

  bool is_output(std::size_t at) const;
  void apply(std::size_t at);
  void conclude_eager();
  bool has_left(std::uint32_t version) const;
  void apply_to_job(const Line& line);
  void apply_to_rank(std::size_t at);
  void begin(const Line& line);
  void take_report(const Line& line);
  void send_news(const Line& line);
  void break_session(std::size_t at);
  void see_loss(std::uint16_t rank);
  void take(std::size_t at);
  bool is_interrupted_before_end(std::size_t at) const;
  void take_end(const Line& line);

  using States = std::vector<std::shared_ptr<ConnectionState>>;
  void look(std::uint16_t rank);
  static void require_fences(std::uint16_t rank, const States& open);
  void look_at_reports(std::uint16_t rank);
  void look_at_versions(std::uint16_t rank);
  void note(std::string event) { seen_.push_back(std::move(event)); }
  void compare(std::size_t first, std::size_t end) const;
  std::string expected(const Line& line) const;

  const Trace& trace_;
  const ReplayServers& servers_;
  TracedLayout layout_;
  TracedCoordinator coordinator_;
  std::map<std::uint32_t, std::vector<std::unique_ptr<TracedShard>>> shards_;  // by version, part
  std::vector<Rank> ranks_;
  const Line* input_ = nullptr;
  std::vector<std::string> seen_;    // what the input has led to
  std::set<std::uint32_t> planned_;  // versions of planned changes
  std::uint32_t current_ = 1;        // version of the coordinator
  bool repairing_ = false;
};

}  // namespace tally::traces
