// Of a run on one host or several: starts the node and the workers here, lets the others join, puts
// their rows together, measures the ceiling while they pause, and leaves nothing behind however it
// ends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perf/channel.h"
#include "perf/lobby.h"
#include "perf/meter.h"
#include "perf/node.h"
#include "perf/options.h"
#include "perf/process.h"
#include "perf/progress.h"
#include "perf/report.h"
#include "perf/signals.h"

namespace tally::perf {

class Conductor {
 public:
  explicit Conductor(Options options);

  // Returns the exit status.
  int run();

 private:
  struct Worker {
    std::unique_ptr<Channel> channel;
    ChildProcess process;       // of ours
    std::string host;           // of the others
    std::string transport;      // once it is ready
    std::string provider;       // libfabric's, if there is one
    std::string host_name;      // what its node would call its machine
    std::vector<RankRow> rows;  // those not merged yet, oldest first
    std::uint64_t steps = 0;
    bool paused = false;
    bool done = false;  // it has said so
    bool gone = false;
    std::string failure;  // its own words
  };

  Outcome prepare();
  Outcome start_node();
  Outcome gather();
  Outcome start_here(std::uint32_t rank);
  int conduct();
  // Waits for news until `until`; false when a signal has come.
  bool wait_for_news(Nanos until);
  void hear(std::uint32_t rank);
  void obey(std::uint32_t rank, const nlohmann::json& message);
  void note_ready(std::uint32_t rank, const nlohmann::json& message);
  void look_at_plan();
  void note_row(std::uint32_t rank, const nlohmann::json& message);
  void note_log(std::uint32_t rank, const nlohmann::json& message);
  void measure_ceiling();
  void make_meter();
  void merge_rows();
  bool all_done() const;
  bool anyone_failed() const;
  // Our own node has; how stands in node_end_ then.
  bool node_ended(Nanos patience);
  void tell_failures();
  void say(const std::string& words);
  std::string who(std::uint32_t rank) const;
  int fail(const std::string& words, int status);

  Options options_;
  std::vector<Row> rows_;
  std::size_t merged_ = 0;  // rows reported
  Signals signals_;
  std::uint16_t port_ = 0;  // where other hosts join; 0: they do not
  UniqueFd listener_;
  std::unique_ptr<Node> node_;  // outlives the workers below
  std::string node_end_;
  std::vector<Worker> workers_;
  bool meter_made_ = false;  // or it is known that there is none
  std::unique_ptr<Meter> meter_;
  std::uint64_t steps_total_ = 0;  // 0: nobody knows
  std::uint32_t shards_ = 0;
  std::vector<std::string> logged_;
  Nanos last_news_ = 0;
  Report report_;
  Progress progress_;
};

}  // namespace tally::perf
