// Handles the signals that end a process. The first signal makes fd() readable, and the event loop
// then has a limited time to end. The second signal, or the end of that time, ends the process at
// once.
#pragma once

#include "base/system/fd.h"

namespace tally::control {

class Shutdown {
 public:
  // Blocks the signals in this thread, and in threads that it makes later, until accept(). So no
  // shard's thread is ever interrupted. At most one object per process.
  Shutdown();

  // From now on this thread receives the signals.
  void accept();

  // Readable once a signal has come.
  int fd() const { return event_.get(); }
  // The signal that has come; 0 before that.
  static int signal_number();

 private:
  UniqueFd event_;
};

}  // namespace tally::control
