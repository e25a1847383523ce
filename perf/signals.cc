#include "perf/signals.h"

#include <signal.h>
#include <sys/signalfd.h>

namespace tally::perf {

void Signals::take_over() {
  signal(SIGPIPE, SIG_IGN);  // a reader of the table who leaves is an error of a write, not our end
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  fd_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

bool Signals::came() {
  signalfd_siginfo news{};
  while (read(fd_.get(), &news, sizeof news) == sizeof news) {
    if (news.ssi_signo != SIGCHLD) number_ = static_cast<int>(news.ssi_signo);
  }
  return number_ != 0;
}

}  // namespace tally::perf
