// tallyctl: queries a node. Exit codes: 0 the node answered, 1 it did not, 2 wrong usage.
// doctor/command.h has the codes of `tallyctl doctor`, which examines the machine. plan_command.h
// has those of `tallyctl plan`.
#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "control/cli/common/explain.h"
#include "control/cli/common/flags.h"
#include "control/cli/common/standard_output.h"
#include "control/cli/doctor/command.h"
#include "control/cli/drain_command.h"
#include "control/cli/dump_command.h"
#include "control/cli/inspect/command.h"
#include "control/cli/plan/plan_remote.h"
#include "control/cli/probe/command.h"
#include "control/cli/token_command.h"
#include "control/cli/top/command.h"
#include "control/cli/trace_command.h"
#include "control/cli/training/command.h"
#include "control/cli/views.h"
#include "control/sim/command/plan_sim.h"
#include "net/address.h"
#include "net/rpc/follow.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct Arguments {
  std::string address;
  std::string token_text;
  bool as_json = false;
  double watch = 0;      // seconds; 0: once
  double timeout = 5;    // seconds, for each answer
  std::string job;       // job whose ranks are shown; empty: all
  bool cluster = false;  // show jobs as the coordinator sees them
  TraceArguments trace;
  DumpArguments dump;
  doctor::DoctorArguments doctor;
  DrainArguments drain;
  TokenArguments token;
  PlanArguments plan;
  TrainingArguments training;
  InspectArguments inspect;
  simulator::PlanSimArguments sim;
  probe::ProbeArguments probe;
  top::TopArguments top;
};

Nanos nanos(double seconds) {
  return static_cast<Nanos>(seconds * kSecond);
}

Result<json> call(rpc::RpcChannel& channel, std::string_view method, const json& params,
                  double timeout) {
  return channel.query(method, params, monotonic_now() + nanos(timeout));
}

// Connects to the node that answers the command. For a command about a cluster, that is the
// coordinator, which the members name.
Result<rpc::RpcChannel> connect(const std::string& command, const Arguments& arguments) {
  // A host that is down must not take the whole timeout of an answer.
  auto node = rpc::RpcChannel::connect_as_user(arguments.address,
                                               std::min(3 * kSecond, nanos(arguments.timeout)));
  const bool of_cluster =
      command == "nodes" || command == "plan" || command == "drain" || arguments.cluster;
  if (!node || !of_cluster) return node;
  const auto members = call(*node, "cluster.nodes", json::object(), arguments.timeout);
  if (!members || !members->is_array() || !members->empty()) return node;
  auto coordinator = rpc::follow(*node, monotonic_now() + nanos(arguments.timeout));
  // A node that stands alone has no members and answers with an empty list.
  if (coordinator || command == "nodes")
    return coordinator ? std::move(coordinator) : std::move(node);
  return Error{coordinator.status(),
               fmt::format("{}; give the coordinator's --address", coordinator.error().message)};
}

// The metrics of one job, or of every job. A job that ends meanwhile is left out.
Result<json> ask_ranks(rpc::RpcChannel& channel, const Arguments& arguments) {
  json names = json::array({arguments.job});
  if (arguments.job.empty()) {
    const auto jobs = call(channel, "node.jobs", json::object(), arguments.timeout);
    if (!jobs) return jobs.error();
    names = json::array();
    for (const json& job : *jobs) {
      const json name = job.value("name", "");
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  json list = json::array();
  for (const json& name : names) {
    auto metrics = call(channel, "node.metrics", {{"job", name}}, arguments.timeout);
    if (metrics) {
      list.push_back(std::move(metrics).value());
    } else if (!arguments.job.empty() || metrics.status() != Status::kInvalidArgument) {
      return metrics.error();
    }
  }
  return list;
}

Result<json> ask(rpc::RpcChannel& channel, const std::string& command, const Arguments& arguments) {
  if (command == "ranks") return ask_ranks(channel, arguments);
  const bool of_cluster = command == "nodes" || arguments.cluster;
  const std::string_view unit = of_cluster ? "cluster." : "node.";
  return call(channel, fmt::format("{}{}", unit, command), json::object(), arguments.timeout);
}

std::string render(const std::string& command, const Arguments& arguments, const json& answer,
                   Sample& last) {
  const Nanos now = monotonic_now();
  if (arguments.cluster) return render_cluster_jobs(answer);
  if (command == "status") return render_status(answer);
  if (command == "jobs") return render_jobs(answer, now, last);
  if (command == "ranks") return render_ranks(answer, now, last);
  if (command == "nodes") return render_nodes(answer);
  return render_stats(answer, now, last);
}

void pause(double seconds) {
  const auto span = nanos(seconds);
  const timespec time{span / kSecond, span % kSecond};
  ::nanosleep(&time, nullptr);
}

int fail(const Error& error) {
  fmt::print(stderr, "tallyctl: {}: {}\n", status_name(error.status), error.message);
  return kFailed;
}

int trace(rpc::RpcChannel& channel, TraceArguments arguments, double timeout) {
  arguments.timeout = timeout;
  const auto written = run_trace(channel, arguments);
  if (!written) return fail(written.error());
  return print_out(*written + "\n", "tallyctl") ? 0 : kFailed;
}

// The document and the summary go to different streams when both would go to standard output.
int dump(rpc::RpcChannel& channel, const DumpArguments& arguments, Nanos timeout) {
  const auto summary = run_dump(channel, arguments, timeout);
  if (!summary) return fail(summary.error());
  if (!arguments.out.empty()) return print_out(*summary, "tallyctl") ? 0 : kFailed;
  fmt::print(stderr, "{}", *summary);
  return 0;
}

int show(rpc::RpcChannel& channel, const std::string& command, const Arguments& arguments) {
  Sample last;
  for (bool first = true;; first = false) {
    const auto answer = ask(channel, command, arguments);
    if (!answer) return fail(answer.error());
    const bool clear = !first && !arguments.as_json && ::isatty(STDOUT_FILENO) != 0;
    const std::string text = arguments.as_json
                                 ? answer->dump(arguments.watch > 0 ? -1 : 2, ' ', false,
                                                json::error_handler_t::replace) +
                                       "\n"
                                 : render(command, arguments, *answer, last);
    if (!print_out((clear ? "\033[H\033[2J" : "") + text, "tallyctl")) return kFailed;
    if (arguments.watch <= 0 || is_unread()) return 0;
    pause(arguments.watch);
  }
}

int print_answer(const PlanAnswer& answer) {
  const bool printed = print_out(answer.out, "tallyctl");
  fmt::print(stderr, "{}", answer.err);
  return answer.status == 0 && !printed ? kFailed : answer.status;
}

int execute(rpc::RpcChannel& channel, const std::string& command, const Arguments& arguments) {
  const Nanos timeout = nanos(arguments.timeout);
  if (command == "token") return revoke_token(channel, arguments.token, timeout);
  if (command == "drain") return run_drain(channel, arguments.drain, arguments.as_json, timeout);
  if (command == "dump") return dump(channel, arguments.dump, timeout);
  if (command == "trace") return trace(channel, arguments.trace, arguments.timeout);
  if (command == "plan") {
    return print_answer(answer_remote_plan(channel, arguments.plan, arguments.as_json, timeout));
  }
  return show(channel, command, arguments);
}

// A command expects an answer of a known form. A node of another version may send another form.
int ask_node(const std::string& command, const Arguments& arguments) {
  auto channel = connect(command, arguments);
  if (!channel) return fail(channel.error());
  try {
    return execute(*channel, command, arguments);
  } catch (const json::exception& error) {
    return fail({Status::kProtocol,
                 fmt::format("{} answered what is not understood: {}; is it of another version?",
                             channel->address(), error.what())});
  }
}

int plan(const Arguments& arguments) {
  if (arguments.training.verb != TrainingVerb::kNone) {
    return print_answer(answer_training(arguments.training, arguments.as_json));
  }
  if (arguments.inspect.verb != InspectVerb::kNone) {
    return print_answer(answer_inspect(arguments.inspect, arguments.as_json));
  }
  if (arguments.sim.is_chosen) {
    return print_answer(simulator::answer_plan_sim(arguments.sim.options, arguments.as_json));
  }
  const PlanVerb verb = arguments.plan.verb;
  const bool needs_node = verb == PlanVerb::kSet || verb == PlanVerb::kShow;
  if (needs_node) return ask_node("plan", arguments);
  return print_answer(answer_plan(arguments.plan, arguments.as_json));
}

// At an address that the user gave, a node must answer.
int examine_machine(const Arguments& arguments, bool has_address_option) {
  const char* variable = ::secure_getenv("TALLY_ADDRESS");
  const bool in_environment = variable != nullptr && *variable != '\0';
  return doctor::run_doctor(arguments.doctor,
                            {.address = arguments.address,
                             .address_was_given = has_address_option || in_environment,
                             .timeout = arguments.timeout,
                             .as_json = arguments.as_json});
}

// Why --watch is refused: the command does not query one node repeatedly. Empty when it does.
std::string_view why_not_watched(std::string_view command) {
  if (command == "doctor") return "doctor looks once";
  if (command == "dump") return "dump collects once";
  if (command == "drain") return "drain looks until it is over, or for --wait seconds";
  if (command == "plan") return "plan answers once";
  if (command == "token") return "token answers once";
  if (command == "probe") return "probe measures once";
  if (command == "top") return "top looks again by itself, every --interval";
  return {};
}

int run(int argc, char** argv) {
  CLI::App app("Asks a Tally node how it is.", "tallyctl");
  Arguments arguments;
  arguments.address = net::default_connect_address();
  app.set_version_flag("--version", std::string("tallyctl ") + TALLY_VERSION);
  const auto* address =
      app.add_option("--address", arguments.address,
                     "the node's address, unix:/path or tcp:host:port; of several, separated by "
                     "commas, the first where a node listens ($TALLY_ADDRESS)")
          ->capture_default_str();
  app.add_option(
         "--token", arguments.token_text,
         "a token or the cluster's secret, for nodes over TCP; @FILE: the first line of FILE "
         "($TALLY_TOKEN)")
      ->type_name("TEXT");
  app.add_flag("--json", arguments.as_json, "print the node's answer as JSON");
  app.add_option("--timeout", arguments.timeout, "seconds to wait for an answer")
      ->check(number_in(0.001, 3600.0))
      ->capture_default_str();
  app.add_option("--watch", arguments.watch, "ask again every so many seconds")
      ->check(number_in(0.1, 86400.0));
  app.require_subcommand(1);
  app.fallthrough();
  app.add_subcommand("status", "what runs there");
  app.add_subcommand("jobs", "jobs, where their time goes, whom they wait for, and why")
      ->add_flag("--cluster", arguments.cluster,
                 "how those of a cluster stand, also before nodes serve them; asked of its "
                 "coordinator");
  app.add_subcommand("nodes", "the members of a cluster; asked of its coordinator");
  app.add_subcommand("stats", "counters of the shards; with --watch per second");
  auto* ranks = app.add_subcommand("ranks", "counters of each rank: who comes last, and how late");
  ranks->add_option("JOB", arguments.job, "only this job");
  auto* trace =
      app.add_subcommand("trace", "each operation of a job, as a file for ui.perfetto.dev");
  trace->add_option("JOB", arguments.trace.job, "the job")->required();
  trace->add_option("--seconds", arguments.trace.seconds, "how long; Ctrl-C ends it earlier")
      ->check(number_in(0.01, 3600.0))
      ->capture_default_str();
  trace->add_option("--out", arguments.trace.out, "the file to write")->required();
  auto* dump = app.add_subcommand(
      "dump",
      "post-mortem: the latest operations of all ranks, of all nodes of a cluster, as JSON");
  dump->add_option("--job", arguments.dump.job, "only this job");
  dump->add_option("--out", arguments.dump.out, "the file to write; left out: standard output");
  doctor::add_doctor(app, arguments.doctor);
  add_drain(app, arguments.drain);
  add_token(app, arguments.token);
  CLI::App& plan_app = *add_plan(app, arguments.plan);
  add_training(plan_app, arguments.training);
  add_inspect(plan_app, arguments.inspect);
  simulator::add_plan_sim(plan_app, arguments.sim);
  probe::add_probe(app, arguments.probe);
  top::add_top(app, arguments.top);
  app.footer("docs/metrics.md defines every column.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return print_help_or_explain(app, error, "tallyctl") ? 0 : kUsage;
  }
  ::signal(SIGPIPE, SIG_IGN);
  // All parts of the program, and what it starts, show what the environment says.
  if (!arguments.token_text.empty()) ::setenv("TALLY_TOKEN", arguments.token_text.c_str(), 1);
  const std::string command = app.get_subcommands().front()->get_name();
  if (const auto why = why_not_watched(command); arguments.watch > 0 && !why.empty()) {
    fmt::print(stderr, "tallyctl: --watch: {}; leave it out\n", why);
    return kUsage;
  }
  if (command == "probe") {
    return probe::run_probe(
        arguments.probe,
        {.address = arguments.address, .timeout = arguments.timeout, .as_json = arguments.as_json});
  }
  if (command == "top") {
    return top::run_top(
        arguments.top,
        {.address = arguments.address, .timeout = arguments.timeout, .as_json = arguments.as_json});
  }
  if (command == "doctor") return examine_machine(arguments, address->count() > 0);
  if (command == "plan") return plan(arguments);
  if (command == "token" && arguments.token.verb != TokenVerb::kRevoke)
    return run_token(arguments.token);
  return ask_node(command, arguments);
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
