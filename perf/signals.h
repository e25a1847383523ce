// Signals that end a run, and those of children, as something to poll instead of handlers.
#pragma once

#include "base/fd.h"

namespace tally::perf {

class Signals {
 public:
  // From here on SIGINT, SIGTERM, SIGHUP and SIGCHLD only make fd() readable. Before children are
  // started, so that none can come between a child and its clean-up.
  void take_over();

  int fd() const { return fd_.get(); }
  // Takes what has come; true from the first on that ends the run, which stands in number().
  bool came();
  int number() const { return number_; }

 private:
  UniqueFd fd_;
  int number_ = 0;
};

}  // namespace tally::perf
