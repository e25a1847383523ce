#include "control/daemon/shutdown.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace tally::control {
namespace {

constexpr unsigned kSeconds = 10;  // for the event loop to end
constexpr int kSignals[] = {SIGTERM, SIGINT};

std::atomic<int> taken{0};
std::atomic<int> event_fd{-1};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

[[noreturn]] void end_at_once(std::string_view why) {
  static_cast<void>(!::write(STDERR_FILENO, why.data(), why.size()));
  ::_exit(1);
}

void on_signal(int number) {
  const int saved = errno;
  if (taken.exchange(number) != 0) end_at_once("tallyd: second signal: ended at once\n");
  ::alarm(kSeconds);
  const std::uint64_t one = 1;
  static_cast<void>(!::write(event_fd.load(), &one, sizeof one));
  errno = saved;
}

void on_alarm(int) {
  end_at_once("tallyd: did not end in good order within 10 s: ended at once\n");
}

sigset_t signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kSignals) sigaddset(&set, number);
  sigaddset(&set, SIGALRM);
  return set;
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(number, &action, nullptr);
}

}  // namespace

Shutdown::Shutdown() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
  event_fd = event_.get();
  const sigset_t set = signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  for (const int number : kSignals) handle(number, on_signal);
  handle(SIGALRM, on_alarm);
  handle(SIGPIPE, SIG_IGN);  // a log reader that ends must not end the node
}

void Shutdown::accept() {
  const sigset_t set = signals();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int Shutdown::signal_number() {
  return taken.load();
}

}  // namespace tally::control
