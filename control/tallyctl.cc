// tallyctl: asks a node how it is. Exit codes: 0 it answered, 1 it did not, 2 wrong usage.
#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "client/address.h"
#include "client/rpc_channel.h"
#include "control/tables.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr std::array kStatusColumns = {
    Column{"address", "address", Format::kText},
    Column{"version", "version", Format::kText},
    Column{"pid", "pid"},
    Column{"uptime_s", "uptime", Format::kSeconds},
    Column{"shards", "shards"},
    Column{"isa", "isa", Format::kText},
    Column{"poll", "poll", Format::kText},
    Column{"hugepages", "hugepages", Format::kText},
    Column{"jobs", "jobs"},
    Column{"sessions", "sessions"},
};

constexpr std::array kJobColumns = {
    Column{"name", "job", Format::kText},
    Column{"epoch", "epoch"},
    Column{"joined", "joined"},
    Column{"ranks", "ranks"},
    Column{"weight", "weight"},
    Column{"regions", "regions"},
    Column{"region_bytes", "registered", Format::kBytes},
    Column{"parts_outstanding", "parts"},
};

constexpr std::array kWaitingColumns = {
    Column{"job", "job", Format::kText},
    Column{"tag", "tag"},
    Column{"round", "round"},
    Column{"seconds", "waiting", Format::kSeconds},
    Column{"missing", "for ranks", Format::kText},
};

constexpr std::array kShardColumns = {
    Column{"index", "shard", Format::kText},
    Column{"notices", "notices", Format::kCount, true},
    Column{"notices_refused", "refused", Format::kCount, true},
    Column{"completions", "completions", Format::kCount, true},
    Column{"failures", "failures", Format::kCount, true},
    Column{"tiles", "tiles", Format::kCount, true},
    Column{"bytes_in", "in", Format::kBytes, true},
    Column{"bytes_out", "out", Format::kBytes, true},
    Column{"peers_lost", "lost", Format::kCount, true},
    Column{"turns", "turns", Format::kCount, true},
    Column{"idle_turns", "idle", Format::kCount, true},
    Column{"sleeps", "sleeps", Format::kCount, true},
};

struct Arguments {
  std::string address;
  bool as_json = false;
  double watch = 0;    // seconds; 0: once
  double timeout = 5;  // seconds, for each answer
};

std::string render_status(const json& status) {
  std::string text;
  for (const Column& column : kStatusColumns) {
    const auto at = status.find(column.key);
    const json value = at == status.end() ? json(nullptr) : *at;
    text += fmt::format("{:<10} {}\n", column.title, format_value(value, column.format));
  }
  return text;
}

std::string render_jobs(const json& jobs) {
  if (jobs.empty()) return "no jobs\n";
  json waiting = json::array();
  for (const json& job : jobs) {
    for (json entry : job.value("waiting", json::array())) {
      entry["job"] = job.value("name", "");
      std::string ranks;
      for (const json& rank : entry.value("missing", json::array())) {
        ranks += (ranks.empty() ? "" : ", ") + rank.dump();
      }
      entry["missing"] = ranks;
      waiting.push_back(std::move(entry));
    }
  }
  std::string text = render_table(jobs, kJobColumns);
  if (!waiting.empty()) {
    text +=
        "\nwaiting for ranks that have not announced:\n" + render_table(waiting, kWaitingColumns);
  }
  return text;
}

json stats_rows(const json& stats) {
  json rows = stats.value("shards", json::array());
  if (rows.size() > 1) {
    json totals = stats.value("totals", json::object());
    totals["index"] = "all";
    rows.push_back(std::move(totals));
  }
  return rows;
}

// What was seen last, for rates.
struct Sample {
  json rows;
  Nanos time = 0;
};

std::string render_stats(const json& stats, Sample& last) {
  const json rows = stats_rows(stats);
  const Nanos now = monotonic_now();
  const double seconds = static_cast<double>(now - last.time) / kSecond;
  const bool again = last.time != 0;
  const std::string text =
      again ? "per second:\n" +
                  render_table(rates(rows, last.rows, seconds, kShardColumns), kShardColumns)
            : render_table(rows, kShardColumns);
  last = {rows, now};
  return text;
}

Result<json> ask(client::RpcChannel& channel, const std::string& command, double timeout) {
  const auto patience = static_cast<Nanos>(timeout * kSecond);
  return channel.call("node." + command, json::object(), {}, monotonic_now() + patience);
}

std::string render(const std::string& command, const json& answer, Sample& last) {
  if (command == "status") return render_status(answer);
  if (command == "jobs") return render_jobs(answer);
  return render_stats(answer, last);
}

void pause(double seconds) {
  const auto span = static_cast<Nanos>(seconds * kSecond);
  const timespec time{span / kSecond, span % kSecond};
  ::nanosleep(&time, nullptr);
}

int fail(const Error& error) {
  fmt::print(stderr, "tallyctl: {}: {}\n", status_name(error.status), error.message);
  return kFailed;
}

int execute(const std::string& command, const Arguments& arguments) {
  auto channel = client::RpcChannel::connect(arguments.address, 0);
  if (!channel) return fail(channel.error());
  Sample last;
  for (bool first = true;; first = false) {
    const auto answer = ask(*channel, command, arguments.timeout);
    if (!answer) return fail(answer.error());
    const bool clear = !first && !arguments.as_json && ::isatty(STDOUT_FILENO) != 0;
    const std::string text = arguments.as_json
                                 ? answer->dump(arguments.watch > 0 ? -1 : 2, ' ', false,
                                                json::error_handler_t::replace) +
                                       "\n"
                                 : render(command, *answer, last);
    fmt::print("{}{}", clear ? "\033[H\033[2J" : "", text);
    if (std::fflush(stdout) != 0) return kFailed;  // whoever read it is gone
    if (arguments.watch <= 0) return 0;
    pause(arguments.watch);
  }
}

int run(int argc, char** argv) {
  CLI::App app("Asks a Tally node how it is.", "tallyctl");
  Arguments arguments;
  arguments.address = client::default_connect_address();
  app.set_version_flag("--version", std::string("tallyctl ") + TALLY_VERSION);
  app.add_option("--address", arguments.address, "the node's address, unix:/path ($TALLY_ADDRESS)")
      ->capture_default_str();
  app.add_flag("--json", arguments.as_json, "print the node's answer as JSON");
  app.add_option("--timeout", arguments.timeout, "seconds to wait for an answer")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  app.add_option("--watch", arguments.watch, "ask again every so many seconds")
      ->check(CLI::Range(0.1, 86400.0));
  app.require_subcommand(1);
  app.fallthrough();
  app.add_subcommand("status", "what runs there");
  app.add_subcommand("jobs", "jobs, their ranks, and whom they wait for");
  app.add_subcommand("stats", "counters of the shards; with --watch per second");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  ::signal(SIGPIPE, SIG_IGN);
  return execute(app.get_subcommands().front()->get_name(), arguments);
}

}  // namespace
}  // namespace tally::control

int main(int argc, char** argv) {
  try {
    return tally::control::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tallyctl: %s\n", error.what());
    return 1;
  }
}
