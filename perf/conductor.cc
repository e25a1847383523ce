#include "perf/conductor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "perf/sizes.h"

namespace tally::perf {
namespace {

// A worker finds its socket here.
constexpr int kWorkerFd = 3;
// After the first failure the others get this long to say what they saw of it.
constexpr Nanos kLastWordsPatience = 5 * kSecond;
constexpr Nanos kWorkerStopPatience = kSecond;

// Bytes that the machine can still give; 0 when it does not say.
std::uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kilobytes = 0;
  std::string unit;
  while (file >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, unit);
  }
  return 0;
}

}  // namespace

Conductor::Conductor(Options options)
    : options_(std::move(options)),
      report_(options_, !options_.quiet),
      progress_(!options_.quiet) {}

int Conductor::run() {
  if (auto outcome = prepare(); !outcome.ok()) {
    const bool usage = outcome.error().status == Status::kInvalidArgument;
    return fail(outcome.error().message, usage ? kExitUsage : kExitFailed);
  }
  const int status = conduct();
  progress_.clear();
  for (Worker& worker : workers_) worker.process.ask_to_end();
  for (Worker& worker : workers_) worker.process.stop(kWorkerStopPatience);
  node_.reset();
  if (signal_ != 0) return 128 + signal_;
  return status;
}

Outcome Conductor::prepare() {
  // Before anything is started, so that no signal can come between a child and its clean-up.
  signal(SIGPIPE, SIG_IGN);  // a reader of the table who leaves is an error of a write, not our end
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  auto rows = make_rows(options_);
  if (!rows.ok()) return rows.error();
  rows_ = std::move(rows).value();
  const std::uint64_t arenas = options_.in_place ? 1 : 2;
  const std::uint64_t workers = arena_bytes(options_, rows_) * arenas * options_.ranks;
  const std::uint64_t needed = options_.ceiling ? 2 * workers : workers;
  const std::uint64_t available = available_memory();
  if (available != 0 && needed > available) {
    return Error{Status::kNoMemory,
                 fmt::format("needs {} MiB for buffers and {} MiB are available: fewer workers, "
                             "--in-place, or less to measure",
                             needed >> 20, available >> 20)};
  }
  if (auto outcome = start_node(); !outcome.ok()) return outcome;
  if (options_.job.empty()) options_.job = fmt::format("tally-perf-{}", getpid());
  workers_.resize(options_.ranks);
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    if (auto outcome = start_worker(rank); !outcome.ok()) return outcome;
  }
  return Unit{};
}

Outcome Conductor::start_node() {
  if (!options_.address.empty()) return Unit{};
  auto node = Node::start(options_);
  if (!node.ok()) return node.error();
  node_ = std::move(node).value();
  options_.address = node_->address();
  return Unit{};
}

Outcome Conductor::start_worker(std::uint32_t rank) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return Error{Status::kInternal, fmt::format("socketpair: {}", std::strerror(errno))};
  }
  Worker& worker = workers_[rank];
  worker.channel = std::make_unique<Channel>(UniqueFd(pair[0]));
  const UniqueFd theirs(pair[1]);
  auto process = ChildProcess::start({
      .command = {own_path(), "worker", std::to_string(kWorkerFd)},
      .descriptors = {{0, 0}, {1, 1}, {2, 2}, {theirs.get(), kWorkerFd}},
      .signal_when_orphaned = SIGKILL,
  });
  if (!process.ok()) return process.error();
  worker.process = std::move(process).value();
  Options its = options_;
  its.rank = rank;
  worker.channel->send(to_json(its));
  return Unit{};
}

int Conductor::conduct() {
  const auto timeout = static_cast<Nanos>(options_.timeout_s * static_cast<double>(kSecond));
  last_news_ = monotonic_now();
  Nanos give_up = kForever;  // after the first failure
  while (!all_done()) {
    const Nanos until = timeout > 0 ? std::min(give_up, last_news_ + timeout) : give_up;
    if (!wait_for_news(until)) return 128 + signal_;
    merge_rows();
    measure_ceiling();
    if (node_ && give_up == kForever) {
      if (const auto how = node_->ended()) {
        progress_.clear();
        std::cerr << "tally-perf: the node ended: " << *how << '\n';
        give_up = monotonic_now() + kLastWordsPatience;
      }
    }
    if (give_up == kForever && anyone_failed()) give_up = monotonic_now() + kLastWordsPatience;
    const Nanos now = monotonic_now();
    if (now >= give_up) break;
    if (timeout > 0 && now >= last_news_ + timeout) {
      return fail(fmt::format("no progress for {} s", options_.timeout_s), kExitTimeout);
    }
  }
  progress_.clear();
  if (merged_ < rows_.size() || give_up != kForever || anyone_failed()) {
    tell_failures();
    report_.finish();
    return kExitFailed;
  }
  if (!report_.finish()) return kExitFailed;
  return report_.good() ? 0 : kExitWrong;
}

bool Conductor::wait_for_news(Nanos until) {
  std::vector<pollfd> sources = {{signals_.get(), POLLIN, 0}};
  for (const Worker& worker : workers_) {
    sources.push_back({worker.gone ? -1 : worker.channel->fd(), POLLIN, 0});
  }
  const Nanos now = monotonic_now();
  const Nanos wait = until == kForever ? kSecond : std::clamp<Nanos>(until - now, 0, kSecond);
  if (poll(sources.data(), sources.size(), static_cast<int>(wait / kMillisecond) + 1) < 0) {
    return errno == EINTR;
  }
  signalfd_siginfo news{};
  while (read(signals_.get(), &news, sizeof news) == sizeof news) {
    if (news.ssi_signo != SIGCHLD) signal_ = static_cast<int>(news.ssi_signo);
  }
  if (signal_ != 0) return false;
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    if (sources[rank + 1].revents != 0) hear(rank);
  }
  return true;
}

void Conductor::hear(std::uint32_t rank) {
  Worker& worker = workers_[rank];
  last_news_ = monotonic_now();
  const bool open = worker.channel->read_available();
  while (const auto message = worker.channel->next()) obey(rank, *message);
  worker.gone = !open;
}

void Conductor::obey(std::uint32_t rank, const nlohmann::json& message) {
  Worker& worker = workers_[rank];
  const std::string event = message.at("event");
  if (event == "ready") return note_ready(rank, message);
  if (event == "log") return note_log(rank, message);
  if (event == "row") worker.rows.push_back(rank_row_from_json(message.at("row")));
  if (event == "pause") worker.paused = true;
  if (event == "done") worker.done = true;
  if (event == "failed") worker.failure = message.at("message");
  if (event != "progress") return;
  worker.steps = message.at("done");
  const Row& row = rows_[std::min(merged_, rows_.size() - 1)];
  if (rank == 0) {
    progress_.show(row.workload == "sizes" ? format_bytes(row.bytes()) : row.workload, worker.steps,
                   steps_total_);
  }
}

void Conductor::note_ready(std::uint32_t rank, const nlohmann::json& message) {
  if (rank != 0) return;
  steps_total_ = message.at("steps");
  report_.set_session(message.at("transport"), message.at("shards"));
}

// Information is the same at every rank: rank 0's stands for all. A warning is printed once.
void Conductor::note_log(std::uint32_t rank, const nlohmann::json& message) {
  const std::string text = message.at("text");
  const bool warning = message.at("level") != 0;
  if (!warning && (options_.quiet || rank != 0)) return;
  if (std::find(logged_.begin(), logged_.end(), text) != logged_.end()) return;
  logged_.push_back(text);
  progress_.clear();
  std::cerr << "tally-perf: " << text << '\n';
}

void Conductor::measure_ceiling() {
  const auto paused = [](const Worker& worker) { return worker.paused; };
  if (!std::all_of(workers_.begin(), workers_.end(), paused)) return;
  if (!ceiling_) {
    std::uint64_t most = 0;
    for (const Row& row : rows_) most = std::max(most, row.bytes());
    ceiling_ = std::make_unique<Ceiling>(minimal_traffic(options_.kind, options_.ranks), most,
                                         options_.in_place, options_.ceiling_threads);
    ceiling_->begin(rows_[merged_].bytes());
    ceiling_->sample();  // the first touch of everything does not count
    ceiling_->begin(rows_[merged_].bytes());
  }
  ceiling_->sample();
  for (Worker& worker : workers_) {
    worker.paused = false;
    worker.channel->send({{"event", "resume"}});
  }
  last_news_ = monotonic_now();
}

void Conductor::merge_rows() {
  const auto has_row = [](const Worker& worker) { return !worker.rows.empty(); };
  while (std::all_of(workers_.begin(), workers_.end(), has_row)) {
    std::vector<RankRow> ranks;
    for (Worker& worker : workers_) {
      ranks.push_back(std::move(worker.rows.front()));
      worker.rows.erase(worker.rows.begin());
    }
    Measurement measurement = merge(options_, rows_[merged_], ranks);
    if (ceiling_) measurement.ceiling = ceiling_->gigabytes_per_second();
    progress_.clear();
    report_.add(rows_[merged_++], measurement);
    if (ceiling_ && merged_ < rows_.size()) ceiling_->begin(rows_[merged_].bytes());
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

// First who died without a word: that is the cause, and the others only saw it.
void Conductor::tell_failures() {
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    Worker& worker = workers_[rank];
    if (worker.done || !worker.failure.empty()) continue;
    const auto how = worker.process.ended();
    std::cerr << (how ? fmt::format("tally-perf: rank {} ended: {}\n", rank, *how)
                      : fmt::format("tally-perf: rank {} runs, but says nothing\n", rank));
  }
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank].failure.empty()) continue;
    std::cerr << fmt::format("tally-perf: rank {}: {}\n", rank, workers_[rank].failure);
  }
}

int Conductor::fail(const std::string& words, int status) {
  progress_.clear();
  std::cerr << "tally-perf: " << words << '\n';
  return status;
}

}  // namespace tally::perf
