#include "control/cli/top/command.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "control/cli/common/flags.h"
#include "control/cli/common/standard_output.h"
#include "control/cli/top/poller.h"
#include "control/cli/top/render.h"
#include "control/cli/top/terminal.h"
#include "control/cli/top/view.h"

namespace tally::control::top {
namespace {

using nlohmann::json;

constexpr int kFailed = 1;

// Runs one look at a time on a thread of its own, so that keys are read meanwhile.
class Looker {
 public:
  explicit Looker(Poller& poller)
      : poller_(poller), done_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void begin() {
    thread_ = std::jthread([this] {
      look_ = poller_.look();
      ::eventfd_write(done_.get(), 1);
    });
  }
  bool is_looking() const { return thread_.joinable(); }
  int fd() const { return done_.get(); }
  // Precondition: fd() has become readable.
  Look take() {
    thread_.join();
    eventfd_t count = 0;
    ::eventfd_read(done_.get(), &count);
    return std::move(look_);
  }

 private:
  Poller& poller_;
  UniqueFd done_;
  Look look_;
  std::jthread thread_;  // last: it ends before the members that it uses
};

void pause(Nanos span) {
  const timespec time{span / kSecond, span % kSecond};
  ::nanosleep(&time, nullptr);
}

int fail(const std::string& why) {
  fmt::print(stderr, "tallyctl: {}\n", why);
  return kFailed;
}

// For pipes and files: prints one view after the other.
int print_views(Poller& poller, Nanos interval, bool once, bool as_json) {
  Look before = poller.look();
  if (before.nodes.empty()) return fail(before.note);
  for (;;) {
    pause(interval);
    Look now = poller.look();
    const json view = top_view(before, now);
    const std::string text =
        as_json ? view.dump(once ? 2 : -1, ' ', false, json::error_handler_t::replace) + "\n"
                : render_top(view, {}) + (once ? "" : "\n");
    if (!print_out(text, "tallyctl")) return kFailed;
    if (once || is_unread()) return 0;
    before = std::move(now);
  }
}

int watch(Poller& poller, Nanos interval) {
  Look before, now = poller.look();
  if (now.nodes.empty()) return fail(now.note);
  Terminal terminal;
  Looker looker(poller);
  json view = top_view(before, now);
  for (Nanos next = monotonic_now() + interval;;) {
    const Screen size = terminal.size();
    terminal.draw(render_top(view, size));
    const Nanos until = looker.is_looking() ? kForever : next;
    const auto event = terminal.wait(until, looker.is_looking() ? looker.fd() : -1);
    if (event == Terminal::Event::kQuit) break;
    if (event == Terminal::Event::kTime) {
      next = monotonic_now() + interval;
      looker.begin();
    } else if (event == Terminal::Event::kReadable) {
      before = std::exchange(now, looker.take());
      view = top_view(before, now);
    }
  }
  const int number = terminal.signal();
  return number == 0 || number == SIGINT ? 0 : 128 + number;
}

}  // namespace

CLI::App* add_top(CLI::App& app, TopArguments& arguments) {
  auto* top = app.add_subcommand("top", "a live view of a node, or of all nodes of its cluster");
  top->add_option("--interval", arguments.interval, "seconds between two looks; rates are over it")
      ->check(number_in(0.1, 3600.0))
      ->capture_default_str();
  top->add_flag("--once", arguments.once, "two looks, one view, and the end");
  top->footer(
      "In a terminal the view is drawn anew; q and Ctrl-C end it. Into a pipe one view follows "
      "the\n"
      "other; with --json each is a line. A node that does not answer is shown with the reason "
      "and\n"
      "asked again some seconds later. docs/operate.md says how to read it, docs/metrics.md what\n"
      "each column is.");
  return top;
}

int run_top(const TopArguments& arguments, const TopOptions& options) {
  const auto interval = static_cast<Nanos>(arguments.interval * kSecond);
  // A node that does not answer must not stop the view for long.
  const double timeout = std::min(options.timeout, std::max(1.0, arguments.interval));
  Poller poller(options.address, static_cast<Nanos>(timeout * kSecond));
  const bool live = !arguments.once && !options.as_json && ::isatty(STDOUT_FILENO) != 0;
  if (live) return watch(poller, interval);
  return print_views(poller, interval, arguments.once, options.as_json);
}

}  // namespace tally::control::top
