#include "control/cli/top/terminal.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

namespace tally::control::top {
namespace {

constexpr std::string_view kEnter = "\033[?1049h\033[?25l";  // the alternate screen, no cursor
constexpr std::string_view kLeave = "\033[?25h\033[?1049l";
constexpr Screen kUsual = {80, 24};
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // the terminal is closed, and SIGHUP follows
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

Terminal::Terminal() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kSignals) sigaddset(&set, number);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) throw std::system_error(errno, std::generic_category(), "signalfd");
  enter();
}

Terminal::~Terminal() {
  leave();
}

void Terminal::enter() {
  termios settings{};
  if (::tcgetattr(STDIN_FILENO, &settings) == 0) {
    before_ = settings;
    settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    settings.c_cc[VMIN] = 0;
    settings.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &settings);
  }
  write_all(kEnter);
}

void Terminal::leave() {
  write_all(kLeave);
  if (before_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &*before_);
}

Screen Terminal::size() const {
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return kUsual;
  return {window.ws_col, std::max<std::size_t>(window.ws_row, 1)};
}

// Writes each line over the old one to avoid flicker. The last line has no line end, because a line
// end could scroll the screen.
void Terminal::draw(std::string_view text) const {
  std::string out = "\033[H";
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size() - 1);
    out += text.substr(0, end);
    out += "\033[K";
    text.remove_prefix(end + 1);
    if (!text.empty()) out += '\n';
  }
  write_all(out + "\033[J");
}

Terminal::Event Terminal::on_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != sizeof info) return Event::kTime;
  const int number = static_cast<int>(info.ssi_signo);
  if (number == SIGWINCH) return Event::kRedraw;
  if (number == SIGTSTP) {  // Ctrl-Z: the shell has the terminal until it continues tallyctl
    leave();
    ::raise(SIGSTOP);
    enter();
    return Event::kRedraw;
  }
  signal_ = number;
  return Event::kQuit;
}

Terminal::Event Terminal::on_key() {
  char key = 0;
  const ssize_t count = ::read(STDIN_FILENO, &key, 1);
  if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) keys_end_ = true;
  return count == 1 && (key == 'q' || key == 'Q') ? Event::kQuit : Event::kTime;
}

Terminal::Event Terminal::wait(Nanos until, int fd) {
  for (;;) {
    const Nanos left = until - monotonic_now();
    if (left <= 0) return Event::kTime;
    pollfd entries[] = {{signals_.get(), POLLIN, 0},
                        {before_ && !keys_end_ ? STDIN_FILENO : -1, POLLIN, 0},
                        {fd, POLLIN, 0}};
    const Nanos wait = std::min(left, kSecond) / kMillisecond + 1;
    if (::poll(entries, std::size(entries), static_cast<int>(wait)) <= 0) continue;
    if (entries[0].revents != 0) {
      if (const Event event = on_signal(); event != Event::kTime) return event;
    }
    if (entries[1].revents != 0 && on_key() == Event::kQuit) return Event::kQuit;
    if (entries[2].revents != 0) return Event::kReadable;
  }
}

}  // namespace tally::control::top
