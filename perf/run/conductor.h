// Conducts a run on one host or several. It starts the node and the workers of this host, lets the
// workers of other hosts join, and merges their rows. It measures the ceiling while the workers
// pause. It ends all its processes, however the run ends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/line_channel.h"
#include "perf/ceiling/meter.h"
#include "perf/measure/report.h"
#include "perf/options/options.h"
#include "perf/run/lobby.h"
#include "perf/run/node.h"
#include "perf/run/process.h"
#include "perf/run/progress.h"
#include "perf/run/signals.h"

namespace tally::perf {

class Conductor {
 public:
  explicit Conductor(Options options);

  // Returns the exit status.
  int run();

 private:
  struct Worker {
    std::unique_ptr<net::tls::Tunnel> tunnel;  // to another host; ends after the channel
    std::unique_ptr<net::Channel> channel;
    ChildProcess process;       // of a worker on this host
    std::string host;           // of a worker on another host
    std::string transport;      // set when the worker is ready
    std::string provider;       // libfabric's provider, if there is one
    std::string host_name;      // the name that a node on the worker's machine gives to that
                                // machine
    std::vector<RankRow> rows;  // rows that are not merged yet, oldest first
    std::uint64_t steps = 0;
    bool paused = false;
    bool done = false;  // the worker has reported its end
    bool gone = false;
    std::string failure;  // the worker's message
  };

  Outcome prepare();
  Outcome start_node();
  Outcome gather();
  Outcome start_here(std::uint32_t rank);
  int conduct();
  // Waits for messages until `until`; false when a signal has come.
  bool wait_for_messages(Nanos until);
  // Returns what the node waits for; empty when it waits for no rank.
  std::string awaited() const;
  void report_awaited(Nanos now);
  void read_messages(std::uint32_t rank);
  void handle(std::uint32_t rank, const nlohmann::json& message);
  void note_ready(std::uint32_t rank, const nlohmann::json& message);
  void look_at_plan();
  void note_row(std::uint32_t rank, const nlohmann::json& message);
  void note_log(std::uint32_t rank, const nlohmann::json& message);
  void measure_ceiling();
  void make_meter();
  void merge_rows();
  bool all_done() const;
  bool anyone_failed() const;
  // Whether the node of this run has ended. node_end_ then says how.
  bool node_ended(Nanos timeout);
  void report_failures();
  void print(const std::string& message);
  std::string rank_text(std::uint32_t rank) const;
  int fail(const std::string& message, int status);

  Options options_;
  std::vector<Row> rows_;
  std::size_t merged_ = 0;  // rows that are reported
  Signals signals_;
  std::uint16_t port_ = 0;  // where other hosts join; 0 when none do
  UniqueFd listener_;
  std::shared_ptr<const net::tls::ServerContext> tls_;  // for other hosts; none: in clear
  std::unique_ptr<Node> node_;                          // outlives the workers below
  std::string node_end_;
  std::vector<Worker> workers_;
  bool meter_made_ = false;  // true also when there is no meter
  std::unique_ptr<Meter> meter_;
  std::uint64_t steps_total_ = 0;  // 0 when not known
  std::uint32_t shards_ = 0;
  std::vector<std::string> logged_;
  Nanos last_message_ = 0;
  Nanos reported_at_ = 0;  // last_message_ at the last report of what the node waits for
  Report report_;
  Progress progress_;
};

}  // namespace tally::perf
