// The host that joins a run (lobby.h has the conversation): agrees on the options for each of its
// ranks, then starts a worker for each, which talks to the conductor itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "perf/channel.h"
#include "perf/options.h"
#include "perf/process.h"
#include "perf/signals.h"

namespace tally::perf {

class Joiner {
 public:
  // `words`: the command line without the program, of which `own` was made.
  Joiner(Options own, std::vector<std::string> words);

  // Returns the exit status.
  int run();

 private:
  struct Worker {
    Options options;  // the run's, for this rank
    std::unique_ptr<Channel> conductor;
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
  std::vector<std::string> words_;
  Signals signals_;
  std::vector<Worker> workers_;
};

}  // namespace tally::perf
