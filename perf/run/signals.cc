#include "perf/run/signals.h"

#include <signal.h>
#include <sys/signalfd.h>

namespace tally::perf {

void Signals::take_over() {
  signal(SIGPIPE, SIG_IGN);  // when the reader of the table leaves, a write fails
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  fd_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

bool Signals::came() {
  signalfd_siginfo info{};
  while (read(fd_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo != SIGCHLD) number_ = static_cast<int>(info.ssi_signo);
  }
  return number_ != 0;
}

}  // namespace tally::perf
