// The parent of spawned workers: starts the node and the workers, puts their rows together,
// measures the ceiling while they pause, and leaves nothing behind however it ends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perf/ceiling.h"
#include "perf/channel.h"
#include "perf/node.h"
#include "perf/options.h"
#include "perf/process.h"
#include "perf/progress.h"
#include "perf/report.h"

namespace tally::perf {

class Conductor {
 public:
  explicit Conductor(Options options);

  // Returns the exit status.
  int run();

 private:
  struct Worker {
    std::unique_ptr<Channel> channel;
    ChildProcess process;
    std::vector<RankRow> rows;  // those not merged yet, oldest first
    std::uint64_t steps = 0;
    bool paused = false;
    bool done = false;  // it has said so
    bool gone = false;
    std::string failure;  // its own words
  };

  Outcome prepare();
  Outcome start_node();
  Outcome start_worker(std::uint32_t rank);
  int conduct();
  // Waits for news until `until`; false when a signal has come.
  bool wait_for_news(Nanos until);
  bool signal_came();  // one that ends the run; it stands in signal_
  void hear(std::uint32_t rank);
  void obey(std::uint32_t rank, const nlohmann::json& message);
  void note_ready(std::uint32_t rank, const nlohmann::json& message);
  void note_log(std::uint32_t rank, const nlohmann::json& message);
  void measure_ceiling();
  void merge_rows();
  bool all_done() const;
  bool anyone_failed() const;
  // Our own node has; how stands in node_end_ then.
  bool node_ended(Nanos patience);
  void tell_failures();
  int fail(const std::string& words, int status);

  Options options_;
  std::vector<Row> rows_;
  std::size_t merged_ = 0;  // rows reported
  UniqueFd signals_;
  std::unique_ptr<Node> node_;  // outlives the workers below
  std::string node_end_;
  std::vector<Worker> workers_;
  std::unique_ptr<Ceiling> ceiling_;
  std::uint64_t steps_total_ = 0;
  std::vector<std::string> logged_;
  Nanos last_news_ = 0;
  int signal_ = 0;
  Report report_;
  Progress progress_;
};

}  // namespace tally::perf
