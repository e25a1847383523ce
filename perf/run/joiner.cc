#include "perf/run/joiner.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "net/tcp.h"
#include "net/tls/credentials.h"
#include "perf/options/agreement.h"
#include "perf/options/memory.h"
#include "perf/run/lobby.h"
#include "perf/run/worker.h"

namespace tally::perf {
namespace {

using nlohmann::json;

constexpr Nanos kAnswerTimeout = 10 * kSecond;
constexpr Nanos kStartGrace = 10 * kSecond;  // beyond the time in which other hosts may join
constexpr Nanos kStopTimeout = kSecond;

Nanos nanos(double seconds) {
  return static_cast<Nanos>(seconds * static_cast<double>(kSecond));
}

// Returns the conductor's next message when it is the expected event.
Result<json> expect(net::Channel& channel, const char* event, Nanos deadline,
                    const std::string& host) {
  auto message = channel.receive(deadline);
  try {
    if (!message) {
      const bool late = monotonic_now() >= deadline;
      return Error{
          late ? Status::kDeadline : Status::kUnavailable,
          late
              ? fmt::format("{} did not answer in time", host)
              : fmt::format(
                    "{} ended the connection: do both hosts have the same --token or $TALLY_TOKEN, "
                    "or both TALLY_INSECURE=1?",
                    host)};
    }
    if (message->at("event") == event) return std::move(*message);
    if (message->at("event") == "refused") {
      return Error{Status::kRefused, printable(message->at("message"))};
    }
  } catch (const json::exception&) {
    // reported below
  }
  return Error{Status::kProtocol, fmt::format("{} is no tally-perf --serve of this version", host)};
}

}  // namespace

Joiner::Joiner(Options own, std::vector<std::string> arguments)
    : own_(std::move(own)), arguments_(std::move(arguments)) {}

int Joiner::run() {
  Outcome outcome = Unit{};
  for (const std::uint32_t rank : own_.ranks_here) {
    if (outcome.ok()) outcome = join(rank);
  }
  const Nanos deadline = monotonic_now() + nanos(own_.join_timeout_s) + kStartGrace;
  for (Worker& worker : workers_) {
    if (outcome.ok()) outcome = await_start(worker, deadline);
  }
  signals_.take_over();
  for (Worker& worker : workers_) {
    if (outcome.ok()) outcome = start(worker);
  }
  if (outcome.ok()) return watch();
  std::cerr << "tally-perf: " << outcome.error().message << '\n';
  return outcome.status() == Status::kInvalidArgument ? kExitUsage : kExitFailed;
}

Outcome Joiner::join(std::uint32_t rank) {
  const auto where = net::parse_host_port("--join", own_.join);
  if (!where.ok()) return where.error();
  auto socket = net::connect_tcp(*where, monotonic_now() + nanos(own_.join_timeout_s));
  if (!socket.ok()) {
    return Error{socket.status(),
                 socket.error().message + "; is tally-perf --serve running there?"};
  }
  Worker worker;
  const std::string host = net::remote_host(socket->get());
  const auto credentials = net::tls::Credentials::of_user(own_.token);
  if (!credentials) return credentials.error();
  if (!credentials->in_clear()) {
    auto context = credentials->context();
    if (!context) return context.error();
    auto tunnel = net::tls::Tunnel::client(*context, std::move(socket).value(), host);
    if (!tunnel) return tunnel.error();
    worker.tunnel = std::move(*tunnel);
    socket = worker.tunnel->local_end();
  }
  worker.conductor = std::make_unique<net::Channel>(std::move(socket).value());
  worker.conductor->send({{"event", "join"}, {"protocol", kJoinProtocol}, {"rank", rank}});
  auto answer =
      expect(*worker.conductor, "options", monotonic_now() + kAnswerTimeout, where->text());
  if (!answer.ok()) {
    const std::string why = worker.tunnel ? worker.tunnel->failure() : "";
    if (!why.empty()) return Error{Status::kRefused, fmt::format("{}: {}", where->text(), why)};
    return answer.error();
  }
  const Outcome agreed = agree(worker, *answer);
  if (!agreed.ok()) {
    worker.conductor->send({{"event", "refused"}, {"message", agreed.error().message}});
    return agreed;
  }
  worker.options.conductor_host = host;
  worker.conductor->send({{"event", "agreed"}});
  workers_.push_back(std::move(worker));
  return Unit{};
}

Outcome Joiner::agree(Worker& worker, const json& sent) {
  const auto found = sent.find("options");
  auto served = options_from_network(found == sent.end() ? json() : *found);
  if (!served.ok()) return served.error();
  if (const auto difference = disagreement(*served, arguments_)) {
    return Error{Status::kInvalidArgument, *difference};
  }
  for (const std::string& model : served->models) {
    // A host must not make another host read its files.
    const bool is_builtin = std::ranges::find(control::builtin_workloads(), model) !=
                            control::builtin_workloads().end();
    if (is_builtin || own_.models == served->models) continue;
    return Error{Status::kInvalidArgument,
                 fmt::format("--model {} is a file: name it at the joining host too", model)};
  }
  served->token = own_.token;
  worker.options = std::move(served).value();
  const auto rows = make_rows(worker.options);
  if (!rows.ok()) return rows.error();
  return check_memory(worker.options, *rows, own_.ranks_here.size());
}

Outcome Joiner::await_start(Worker& worker, Nanos deadline) {
  const auto started = expect(*worker.conductor, "start", deadline, own_.join);
  if (started.ok()) return Unit{};
  return Error{started.status(), fmt::format("rank {} waited for the run to begin: {}",
                                             worker.options.rank, started.error().message)};
}

Outcome Joiner::start(Worker& worker) {
  auto process = start_worker(worker.options, worker.conductor->fd());
  if (!process.ok()) return process.error();
  worker.process = std::move(process).value();
  worker.running = true;
  worker.conductor.reset();  // only the worker has it, so its end closes the connection
  return Unit{};
}

// A worker reports its own end, except when a signal ended it.
int Joiner::judge(Worker& worker, const std::string& how) const {
  const int status = worker.process.exit_status();
  if (status < 0) {
    std::cerr << fmt::format("tally-perf: rank {} ended: {}\n", worker.options.rank, how);
  }
  return status < 0 ? kExitFailed : status;
}

int Joiner::watch() {
  int worst = 0;
  const auto runs = [](const Worker& worker) { return worker.running; };
  while (std::ranges::any_of(workers_, runs)) {
    pollfd entry{signals_.fd(), POLLIN, 0};
    ::poll(&entry, 1, 1000);
    if (signals_.came()) {
      for (Worker& worker : workers_) worker.process.ask_to_end();
      for (Worker& worker : workers_) worker.process.stop(kStopTimeout);
      return 128 + signals_.number();
    }
    for (Worker& worker : workers_) {
      if (!worker.running) continue;
      const auto how = worker.process.ended();
      if (!how) continue;
      worker.running = false;
      worst = std::max(worst, judge(worker, *how));
    }
  }
  return worst;
}

}  // namespace tally::perf
