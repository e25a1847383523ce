// Signals as a descriptor to poll, instead of handlers: the signals that end a run, and SIGCHLD.
#pragma once

#include "base/system/fd.h"

namespace tally::perf {

class Signals {
 public:
  // From now on SIGINT, SIGTERM, SIGHUP and SIGCHLD only make fd() readable, and SIGPIPE is
  // ignored. Precondition: no child is started yet, so that no signal can come between the start of
  // a child and its clean-up.
  void take_over();

  int fd() const { return fd_.get(); }
  // Reads the signals that have come. True after the first signal that ends the run; number() is
  // the latest such signal.
  bool came();
  int number() const { return number_; }

 private:
  UniqueFd fd_;
  int number_ = 0;
};

}  // namespace tally::perf
