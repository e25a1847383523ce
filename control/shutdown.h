// Signals that end a process in good order: the first one is told to the event loop, which has a
// limited time to end; the second one, or the end of that time, ends the process at once.
#pragma once

#include "base/fd.h"

namespace tally::control {

class Shutdown {
 public:
  // The signals stay blocked in this thread, and in threads that it makes, until accept(): no
  // shard's thread is ever interrupted. One per process.
  Shutdown();

  // From here on this thread takes the signals.
  void accept();

  // Readable once a signal has come.
  int fd() const { return event_.get(); }
  // Which one; 0 while none has.
  static int signal_number();

 private:
  UniqueFd event_;
};

}  // namespace tally::control
