// tallyd: the summation node. Exit codes: 0 ended in order, 1 could not run, 2 wrong usage or
// configuration.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/debug_steps.h"
#include "base/log/log.h"
#include "control/cli/common/explain.h"
#include "control/config/config.h"
#include "control/config/config_keys.h"
#include "control/daemon/daemon.h"
#include "control/daemon/node_security.h"
#include "control/daemon/shutdown.h"
#include "control/node/timeouts_log.h"

namespace tally::control {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct Arguments {
  std::string config_path;
  std::vector<Override> overrides;
  bool check_config = false;
  int ready_fd = -1;
};

// The kind of value that --help shows.
std::string value_kind(const Key& key) {
  if (const auto* choice = std::get_if<ChoiceKey>(&key.kind)) {
    std::string kinds;
    for (const auto word : choice->choices) kinds.append(kinds.empty() ? "" : "|").append(word);
    return kinds;
  }
  const auto* number = std::get_if<NumberKey>(&key.kind);
  if (number == nullptr) return "TEXT";
  if (number->measure == Measure::kSpeed) return "SPEED";
  return number->measure == Measure::kBytes ? "SIZE" : "N";
}

int usage(std::string_view message) {
  fmt::print(stderr, "tallyd: {}\n", message);
  return kUsage;
}

void describe(CLI::App& app, Arguments& arguments) {
  app.set_version_flag("--version", std::string("tallyd ") + TALLY_VERSION);
  app.add_option("--config", arguments.config_path, "configuration file, TOML (docs/control.md)")
      ->type_name("FILE");
  app.add_flag("--check-config", arguments.check_config,
               "print the configuration in force, and exit");
  app.add_option("--ready-fd", arguments.ready_fd,
                 "write \"ready\\n\" to this descriptor when clients can connect")
      ->check(CLI::NonNegativeNumber)
      ->type_name("FD");
  for (const Key& key : config_keys()) {
    if (key.flag.empty()) continue;
    const auto keep = [&arguments, flag = std::string(key.flag)](const std::string& value) {
      arguments.overrides.push_back({flag, value});
    };
    const std::string help = fmt::format("{} [{}]", key.help, key.path());
    if (std::holds_alternative<TruthKey>(key.kind)) {
      app.add_flag_callback(
          fmt::format("--{}", key.flag), [keep] { keep("true"); }, help);
      continue;
    }
    app.add_option_function<std::string>(fmt::format("--{}", key.flag), keep, help)
        ->type_name(value_kind(key));
  }
  app.footer(
      "Flags override the configuration file. SIGTERM and SIGINT end the node in good order.");
}

// Reports readiness to scripts, which then know when to go on.
void report_ready(int fd) {
  constexpr std::string_view kReady = "ready\n";
  if (fd < 0) return;
  if (::write(fd, kReady.data(), kReady.size()) != static_cast<ssize_t>(kReady.size())) {
    log::warning("ready-fd-failed", {{"fd", fd}, {"error", std::strerror(errno)}});
  }
  if (fd > STDERR_FILENO) ::close(fd);
}

int serve(const Config& config, int ready_fd) {
  log::start(config.log_level);
  for (const std::string& warning : config.warnings) log::warning("config", {{"warning", warning}});
  log_timeouts(config.timeouts());
  Shutdown shutdown;
  auto daemon = Daemon::start(config);
  if (!daemon) {
    log::error("start-failed",
               {{"status", status_name(daemon.status())}, {"error", daemon.error().message}});
    return kFailed;
  }
  log::info("ready", {{"address", config.listen},
                      {"tcp", (*daemon)->tcp_address()},
                      {"shards", config.shards},
                      {"isa", (*daemon)->isa()},
                      {"hugepages", (*daemon)->on_hugepages() ? "on" : "off"},
                      {"poll", kPollModeNames[static_cast<std::size_t>(config.poll)]},
                      {"pid", ::getpid()},
                      {"version", TALLY_VERSION}});
  report_ready(ready_fd);
  shutdown.accept();
  if ((*daemon)->run_until_readable(shutdown.fd())) {
    log::info("stopping", {{"signal", ::strsignal(Shutdown::signal_number())}});
  } else {
    log::info("stopping", {{"idle_s", config.exit_when_idle_s}});
  }
  (*daemon)->stop();
  daemon->reset();
  log::info("stopped");
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("The Tally summation node.", "tallyd");
  Arguments arguments;
  describe(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return print_help_or_explain(app, error, "tallyd") ? 0 : kUsage;
  }
  if (arguments.ready_fd >= 0 && ::fcntl(arguments.ready_fd, F_GETFD) < 0) {
    return usage(fmt::format("--ready-fd {}: this descriptor is not open: open it in the caller",
                             arguments.ready_fd));
  }
  if (const auto steps = start_debug_steps(); !steps) return usage(steps.error().message);
  const auto config = load_config(arguments.config_path, arguments.overrides);
  if (!config) return usage(config.error().message);
  if (const auto security = make_security(*config); !security)
    return usage(security.error().message);
  if (arguments.check_config) {
    fmt::print("{}", to_toml(*config));
    for (const std::string& warning : config->warnings) {
      fmt::print(stderr, "tallyd: warning: {}\n", warning);
    }
    return 0;
  }
  return serve(*config, arguments.ready_fd);
}

}  // namespace
}  // namespace tally::control

int main(int argc, char** argv) {
  try {
    return tally::control::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tallyd: %s\n", error.what());
    return 1;
  }
}
