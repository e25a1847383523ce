#include "perf/run/conductor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text/sizes.h"
#include "net/tcp.h"
#include "perf/measure/statistics.h"
#include "perf/options/agreement.h"
#include "perf/options/memory.h"
#include "perf/prediction/plan_query.h"
#include "perf/run/run_secret.h"
#include "perf/run/waiting.h"
#include "perf/run/worker.h"

namespace tally::perf {
namespace {

// After the first failure, the other workers get this long to report what they saw of it.
constexpr Nanos kReportTimeout = 5 * kSecond;
constexpr Nanos kWorkerStopTimeout = kSecond;
// A node that ends drops its sessions first, so workers notice it before its process has ended.
constexpr Nanos kNodeEndTimeout = 300 * kMillisecond;
constexpr std::size_t kMostLines = 200;  // of the workers' logs

bool names_its_port(const Options& options) {
  return std::ranges::any_of(options.node_arguments, [](const std::string& argument) {
    return argument.starts_with("--listen-tcp");
  });
}

// The address for other hosts: the host's name when it listens on all addresses.
std::string known_as(const std::string& serve) {
  char name[256] = {};
  if (!serve.starts_with("*:") || gethostname(name, sizeof name - 1) != 0) return serve;
  return name + serve.substr(1);
}

}  // namespace

Conductor::Conductor(Options options)
    : options_(std::move(options)),
      report_(options_, !options_.quiet),
      progress_(!options_.quiet) {}

int Conductor::run() {
  if (auto outcome = prepare(); !outcome.ok()) {
    if (signals_.came()) return 128 + signals_.number();
    const bool usage = outcome.status() == Status::kInvalidArgument;
    return fail(outcome.error().message, usage ? kExitUsage : kExitFailed);
  }
  const int status = conduct();
  progress_.clear();
  for (Worker& worker : workers_) worker.process.ask_to_end();
  for (Worker& worker : workers_) worker.process.stop(kWorkerStopTimeout);
  node_.reset();
  if (signals_.number() != 0) return 128 + signals_.number();
  return status;
}

Outcome Conductor::prepare() {
  signals_.take_over();
  auto rows = make_rows(options_);
  if (!rows.ok()) return rows.error();
  rows_ = std::move(rows).value();
  if (auto outcome = report_.open_file(); !outcome.ok()) return outcome;
  if (auto outcome = check_memory(options_, rows_, options_.ranks_here.size()); !outcome.ok()) {
    return outcome;
  }
  if (auto outcome = start_node(); !outcome.ok()) return outcome;
  if (options_.job.empty()) options_.job = fmt::format("tally-perf-{}", getpid());
  workers_.resize(options_.ranks);
  if (auto outcome = gather(); !outcome.ok()) return outcome;
  for (const std::uint32_t rank : options_.ranks_here) {
    if (auto outcome = start_here(rank); !outcome.ok()) return outcome;
  }
  for (Worker& worker : workers_) {
    if (!worker.host.empty()) worker.channel->send({{"event", "start"}});
  }
  return Unit{};
}

// Other hosts reach the node at the port above the one where they join. On a single host the node
// listens on TCP when the transport may need it.
Outcome Conductor::start_node() {
  net::HostPort tcp;
  if (!options_.serve.empty()) {
    auto where = net::parse_host_port("--serve", options_.serve);
    if (!where.ok()) return where.error();
    if (where->port == UINT16_MAX) {
      return Error{Status::kInvalidArgument,
                   fmt::format("--serve {}: the port above it, for the node, must exist too",
                               options_.serve)};
    }
    auto listener = net::listen_tcp(*where);
    if (!listener.ok()) return listener.error();
    listener_ = std::move(listener).value();
    port_ = where->port;
    tcp = {where->host, static_cast<std::uint16_t>(port_ + 1)};
  } else if (options_.transport != "auto" && options_.transport != "shm") {
    auto free = net::listen_tcp({"127.0.0.1", 0});
    if (!free.ok()) return free.error();
    tcp = {"127.0.0.1", net::local_port(free->get())};
  }
  const bool offers = options_.address.empty() && tcp.port != 0 && !names_its_port(options_);
  std::string secret;
  if (offers || !options_.serve.empty()) {
    auto chosen = choose_secret(options_, offers);
    if (!chosen) return chosen.error();
    options_.token = chosen->token;
    secret = chosen->secret;
    tls_ = std::move(chosen->tls);
  }
  if (!options_.address.empty()) return Unit{};
  auto node = Node::start(options_, {.tcp = offers ? tcp.tcp_address() : "", .secret = secret},
                          signals_.fd());
  if (!node.ok()) return node.error();
  node_ = std::move(node).value();
  return Unit{};
}

// Waits for the workers of other hosts.
Outcome Conductor::gather() {
  std::vector<std::uint32_t> elsewhere;
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    if (std::ranges::count(options_.ranks_here, rank) == 0) elsewhere.push_back(rank);
  }
  if (elsewhere.empty()) return Unit{};
  print(fmt::format("waiting for rank {}: tally-perf {} --join {} --rank {}",
                    fmt::join(elsewhere, ","), kind_name(options_.kind), known_as(options_.serve),
                    fmt::join(elsewhere, ",")));
  const auto node_port = static_cast<std::uint16_t>(node_ ? port_ + 1 : 0);
  Lobby lobby({options_, node_port, elsewhere, tls_,
               [this](const std::string& message) { print(message); }},
              listener_.get());
  const auto timeout = static_cast<Nanos>(options_.join_timeout_s * static_cast<double>(kSecond));
  auto guests = lobby.gather(signals_.fd(), monotonic_now() + timeout);
  if (!guests.ok()) return guests.error();
  for (auto& [rank, guest] : *guests) {
    workers_[rank].tunnel = std::move(guest.tunnel);
    workers_[rank].channel = std::move(guest.channel);
    workers_[rank].host = std::move(guest.host);
  }
  return Unit{};
}

Outcome Conductor::start_here(std::uint32_t rank) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return Error{Status::kInternal, fmt::format("socketpair: {}", std::strerror(errno))};
  }
  Worker& worker = workers_[rank];
  worker.channel = std::make_unique<net::Channel>(UniqueFd(pair[0]));
  const UniqueFd theirs(pair[1]);
  Options its = options_;
  its.rank = rank;
  if (node_) its.address = node_->address();
  auto process = start_worker(its, theirs.get());
  if (!process.ok()) return process.error();
  worker.process = std::move(process).value();
  return Unit{};
}

int Conductor::conduct() {
  const auto timeout = static_cast<Nanos>(options_.timeout_s * static_cast<double>(kSecond));
  last_message_ = monotonic_now();
  Nanos give_up = kForever;  // set after the first failure
  while (!all_done()) {
    const Nanos until = timeout > 0 ? std::min(give_up, last_message_ + timeout) : give_up;
    if (!wait_for_messages(until)) return 128 + signals_.number();
    merge_rows();
    measure_ceiling();
    const bool broken = node_ended(0) || anyone_failed();
    if (broken && give_up == kForever) give_up = monotonic_now() + kReportTimeout;
    const Nanos now = monotonic_now();
    if (now >= give_up) break;
    if (timeout > 0 && now >= last_message_ + timeout) {
      const std::string why = awaited();
      return fail(
          fmt::format("no progress for {} s{}{}", options_.timeout_s, why.empty() ? "" : "; ", why),
          kExitTimeout);
    }
    report_awaited(now);
  }
  progress_.clear();
  if (merged_ < rows_.size() || give_up != kForever || anyone_failed()) {
    report_failures();
    report_.finish();
    return kExitFailed;
  }
  if (!report_.finish()) return kExitFailed;
  return report_.good() ? 0 : kExitWrong;
}

bool Conductor::wait_for_messages(Nanos until) {
  std::vector<pollfd> sources = {{signals_.fd(), POLLIN, 0}};
  for (const Worker& worker : workers_) {
    sources.push_back({worker.gone ? -1 : worker.channel->fd(), POLLIN, 0});
  }
  const Nanos now = monotonic_now();
  const Nanos wait = until == kForever ? kSecond : std::clamp<Nanos>(until - now, 0, kSecond);
  if (poll(sources.data(), sources.size(), static_cast<int>(wait / kMillisecond) + 1) < 0) {
    return errno == EINTR;
  }
  if (signals_.came()) return false;
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    if (sources[rank + 1].revents != 0) read_messages(rank);
  }
  return true;
}

std::string Conductor::awaited() const {
  return what_is_awaited(node_ ? node_->address() : options_.address, options_.job, options_.token);
}

// Reports once for each standstill of all ranks, and only for nodes that ran before this run. A run
// has seen its own node start.
void Conductor::report_awaited(Nanos now) {
  const auto silence = static_cast<Nanos>(kSilenceS * static_cast<double>(kSecond));
  if (node_ || reported_at_ == last_message_ || now - last_message_ < silence) return;
  reported_at_ = last_message_;
  if (const std::string message = awaited(); !message.empty()) print(message);
}

void Conductor::read_messages(std::uint32_t rank) {
  Worker& worker = workers_[rank];
  last_message_ = monotonic_now();
  const bool open = worker.channel->read_available();
  try {
    while (const auto message = worker.channel->next()) handle(rank, *message);
  } catch (const nlohmann::json::exception& wrong) {
    worker.failure = fmt::format("its message cannot be read: {}", wrong.what());
  }
  worker.gone = !open || worker.channel->broken() || !worker.failure.empty();
}

void Conductor::handle(std::uint32_t rank, const nlohmann::json& message) {
  Worker& worker = workers_[rank];
  const std::string event = message.at("event");
  if (event == "ready") return note_ready(rank, message);
  if (event == "log") return note_log(rank, message);
  if (event == "row") return note_row(rank, message);
  if (event == "pause") worker.paused = true;
  if (event == "done") worker.done = true;
  if (event == "failed") worker.failure = printable(message.at("message"));
  if (event != "progress") return;
  worker.steps = message.at("done");
  const Row& row = rows_[std::min(merged_, rows_.size() - 1)];
  if (rank == 0) {
    const bool by_rows = steps_total_ == 0;
    progress_.show(row.workload == "sizes" ? short_size_text(row.bytes()) : row.workload,
                   by_rows ? merged_ : worker.steps, by_rows ? rows_.size() : steps_total_);
  }
}

void Conductor::note_ready(std::uint32_t rank, const nlohmann::json& message) {
  workers_[rank].transport = printable(message.at("transport"));
  workers_[rank].provider = printable(message.at("provider"));
  workers_[rank].host_name = printable(message.value("host", ""));
  if (rank == 0) {
    steps_total_ = message.at("steps");
    shards_ = message.at("shards");
  }
  std::vector<std::string> transports;
  for (const Worker& worker : workers_) {
    if (worker.transport.empty()) return;
    transports.push_back(worker.transport);
  }
  report_.set_session(transports, shards_);
  look_at_plan();
  for (Worker& worker : workers_) worker.channel->send({{"event", "start"}});
  last_message_ = monotonic_now();
}

// Called when all ranks have their sessions and none has left, so that every node knows the job.
void Conductor::look_at_plan() {
  std::vector<std::string> hosts;
  for (const Worker& worker : workers_) hosts.push_back(worker.host_name);
  const auto prediction = query_plan(options_, std::move(hosts));
  if (!prediction.ok()) return print(prediction.error().message);
  if (prediction->nodes > 0 || !options_.network.empty()) report_.set_prediction(*prediction);
}

// Another host can send any numbers. Refuses those that could end this process.
void Conductor::note_row(std::uint32_t rank, const nlohmann::json& message) {
  Worker& worker = workers_[rank];
  RankRow row = rank_row_from_json(message.at("row"));
  const std::size_t ranks = workers_.size();
  const bool sound = !row.times.empty() && row.times.size() <= Samples::kMost &&
                     row.iterations != 0 && row.node.times_last.size() <= ranks &&
                     row.node.lateness.size() == row.node.times_last.size() &&
                     merged_ + worker.rows.size() < rows_.size();
  if (!sound) {
    worker.failure = "it sent figures that cannot be";
    return;
  }
  for (std::string& complaint : row.complaints) complaint = printable(std::move(complaint));
  worker.rows.push_back(std::move(row));
}

// Information is the same at every rank, so only rank 0's is printed. A warning is printed once.
void Conductor::note_log(std::uint32_t rank, const nlohmann::json& message) {
  const std::string text = printable(message.at("text"));
  const bool warning = message.at("level") != 0;
  if (!warning && (options_.quiet || rank != 0)) return;
  if (std::find(logged_.begin(), logged_.end(), text) != logged_.end()) return;
  if (logged_.size() == kMostLines) return;
  logged_.push_back(text);
  print(text);
}

void Conductor::measure_ceiling() {
  const auto paused = [](const Worker& worker) { return worker.paused; };
  if (!std::all_of(workers_.begin(), workers_.end(), paused)) return;
  if (!std::exchange(meter_made_, true)) make_meter();
  if (meter_) {
    if (auto sampled = meter_->sample(); !sampled.ok()) {
      report_.set_ceiling(sampled.error().message, false);
      meter_.reset();
    }
  }
  for (Worker& worker : workers_) {
    worker.paused = false;
    worker.channel->send({{"event", "resume"}});
  }
  last_message_ = monotonic_now();
}

void Conductor::make_meter() {
  MeterSetting setting{
      options_, rows_, {}, {}, {}, node_ != nullptr, listener_ ? listener_.get() : -1};
  for (Worker& worker : workers_) {
    setting.transports.push_back(worker.transport);
    setting.providers.push_back(worker.provider);
    setting.workers.push_back(worker.channel.get());
  }
  auto meter = perf::make_meter(setting);
  if (!meter.ok()) return report_.set_ceiling(meter.error().message, false);
  meter_ = std::move(meter).value();
  report_.set_ceiling(meter_->description(), true);
  meter_->begin(rows_[merged_]);
  // The first touch of the memory does not count. A failure appears again in the next sample.
  static_cast<void>(meter_->sample().ok());
  meter_->begin(rows_[merged_]);
}

void Conductor::merge_rows() {
  const auto has_row = [](const Worker& worker) { return !worker.rows.empty(); };
  while (!anyone_failed() && std::all_of(workers_.begin(), workers_.end(), has_row)) {
    std::vector<RankRow> ranks;
    for (Worker& worker : workers_) {
      ranks.push_back(std::move(worker.rows.front()));
      worker.rows.erase(worker.rows.begin());
      if (ranks.back().iterations == ranks.front().iterations &&
          ranks.back().times.size() == ranks.front().times.size()) {
        continue;
      }
      worker.failure = fmt::format("it made {} iterations, rank 0 made {}", ranks.back().iterations,
                                   ranks.front().iterations);
      return;
    }
    Measurement measurement = merge(options_, rows_[merged_], ranks);
    if (meter_) measurement.ceiling = meter_->gigabytes_per_second();
    progress_.clear();
    report_.add(rows_[merged_++], measurement);
    if (meter_ && merged_ < rows_.size()) meter_->begin(rows_[merged_]);
  }
}

bool Conductor::all_done() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.done || worker.gone; });
}

bool Conductor::anyone_failed() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return !worker.failure.empty() || (worker.gone && !worker.done);
  });
}

bool Conductor::node_ended(Nanos timeout) {
  if (!node_ || !node_end_.empty()) return !node_end_.empty();
  const Nanos until = monotonic_now() + timeout;
  do {
    if (const auto how = node_->ended()) node_end_ = *how;
    if (node_end_.empty() && timeout > 0) usleep(2000);
  } while (node_end_.empty() && monotonic_now() < until);
  return !node_end_.empty();
}

// First names the workers that ended without a message: they are the cause, and others only saw it.
void Conductor::report_failures() {
  if (node_ended(kNodeEndTimeout)) print("the node ended: " + node_end_);
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    Worker& worker = workers_[rank];
    if (worker.done || !worker.failure.empty()) continue;
    if (!worker.host.empty()) {
      print(worker.gone ? rank_text(rank) + " ended: its connection broke, so it or its host died"
                        : rank_text(rank) + " says nothing");
      continue;
    }
    const auto how = worker.process.ended();
    print(how ? fmt::format("{} ended: {}", rank_text(rank), *how)
              : rank_text(rank) + " runs, but says nothing");
  }
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    const std::string& failure = workers_[rank].failure;
    if (!failure.empty()) print(fmt::format("{}: {}", rank_text(rank), failure));
  }
}

// For messages: "rank 1", or "rank 2 at 10.0.0.3".
std::string Conductor::rank_text(std::uint32_t rank) const {
  const std::string& host = workers_[rank].host;
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} at {}", rank, host);
}

void Conductor::print(const std::string& message) {
  progress_.clear();
  std::cerr << "tally-perf: " << message << '\n';
}

int Conductor::fail(const std::string& message, int status) {
  print(message);
  return status;
}

}  // namespace tally::perf
