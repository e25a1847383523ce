// A host that joins a run (lobby.h has the messages). It agrees on the options for each of its
// ranks, then starts a worker for each rank. The workers talk to the conductor directly.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/line_channel.h"
#include "net/tls/tunnel.h"
#include "perf/options/options.h"
#include "perf/run/process.h"
#include "perf/run/signals.h"

namespace tally::perf {

class Joiner {
 public:
  // `arguments` is the command line without the program; `own` was made from it.
  Joiner(Options own, std::vector<std::string> arguments);

  // Returns the exit status.
  int run();

 private:
  struct Worker {
    Options options;                           // of the run, for this rank
    std::unique_ptr<net::tls::Tunnel> tunnel;  // ends after the channel
    std::unique_ptr<net::Channel> conductor;
    ChildProcess process;
    bool running = false;
  };

  Outcome join(std::uint32_t rank);
  Outcome agree(Worker& worker, const nlohmann::json& sent);
  Outcome await_start(Worker& worker, Nanos deadline);
  Outcome start(Worker& worker);
  int watch();
  int judge(Worker& worker, const std::string& how) const;

  Options own_;
  std::vector<std::string> arguments_;
  Signals signals_;
  std::vector<Worker> workers_;
};

}  // namespace tally::perf
