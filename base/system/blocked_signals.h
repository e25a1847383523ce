// Blocks all signals for the calling thread during the object's lifetime. A thread that the caller
// starts during that time inherits the mask and receives no signals, so the program's own threads
// handle them. The destructor restores the previous mask and must run on the same thread.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace tally {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace tally
