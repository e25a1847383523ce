#include "control/cli/drain_command.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "control/cli/common/flags.h"
#include "control/cli/common/standard_output.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr int kStays = 1;
constexpr int kRefused = 2;
constexpr Nanos kLookEvery = 200 * kMillisecond;

// What the drain waits for, one line for each job.
std::string describe(const json& waiting) {
  std::string text;
  for (const json& one : waiting) {
    text += fmt::format("  job {}: {}\n", one.value("job", ""), one.value("what", ""));
  }
  return text;
}

bool has_given_up(const json& waiting) {
  return std::any_of(waiting.begin(), waiting.end(),
                     [](const json& one) { return one.value("gave_up", false); });
}

int end(const DrainArguments& arguments, const json& answer, bool as_json) {
  const json waiting = answer.value("waiting", json::array());
  const bool is_done = arguments.undo || waiting.empty();
  std::string text;
  if (as_json) {
    text = answer.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  } else if (is_done) {
    text = fmt::format("{} {}\n", arguments.node,
                       arguments.undo ? "has trees again from the next plans on"
                                      : "serves nothing any more: it may be stopped");
  }
  if (!is_done) {
    fmt::print(stderr,
               "tallyctl: {} still serves:\n{}It gets no new jobs. Drain it again to try again; "
               "--undo takes it back.\n",
               arguments.node, describe(waiting));
  }
  return print_out(text, "tallyctl") && is_done ? 0 : kStays;
}

}  // namespace

void add_drain(CLI::App& app, DrainArguments& arguments) {
  auto* drain = app.add_subcommand(
      "drain", "moves a node's trees to the others, also those of jobs that run");
  drain->add_option("NODE", arguments.node, "its name (tallyctl nodes)")->required();
  drain->add_option("--wait", arguments.wait, "seconds until it must serve nothing any more")
      ->check(number_in(0.0, 86400.0))
      ->capture_default_str();
  drain->add_flag("--undo", arguments.undo, "it gets trees again");
}

int run_drain(rpc::RpcChannel& channel, const DrainArguments& arguments, bool as_json,
              Nanos timeout) {
  const Nanos until = monotonic_now() + static_cast<Nanos>(arguments.wait * kSecond);
  json params = {{"node", arguments.node}, {"undo", arguments.undo}};
  std::string last;
  for (;;) {
    const auto answer = channel.call("cluster.drain", params, {}, monotonic_now() + timeout);
    if (!answer) {
      fmt::print(stderr, "tallyctl: {}\n", answer.error().message);
      return answer.status() == Status::kRefused ? kRefused : kStays;
    }
    const json waiting = answer->value("waiting", json::array());
    const bool done = arguments.undo || waiting.empty() || has_given_up(waiting);
    if (done || monotonic_now() >= until) return end(arguments, *answer, as_json);
    const std::string now = describe(waiting);
    if (!as_json && now != last && !print_out(now, "tallyctl")) return kStays;
    last = now;
    params["look"] = true;
    const timespec pause{0, kLookEvery};
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace tally::control
