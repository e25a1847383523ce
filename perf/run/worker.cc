#include "perf/run/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "net/address.h"
#include "net/line_channel.h"
#include "net/tcp.h"
#include "perf/ceiling/streams.h"
#include "perf/measure/rank_row.h"
#include "perf/measure/report.h"
#include "perf/measure/row_runner.h"
#include "perf/measure/session.h"
#include "perf/prediction/plan_query.h"
#include "perf/run/watchdog.h"

namespace tally::perf {
namespace {

constexpr Nanos kProgressEvery = 100 * kMillisecond;
constexpr double kConnectS = 30;  // seconds that a starting node gets

// At most this share of --timeout (0: no timeout), so that the library can report why it found no
// node before the conductor or the watchdog gives up.
double connect_s(const Options& options, double share) {
  return options.timeout_s > 0 ? std::min(kConnectS, share * options.timeout_s) : kConnectS;
}

struct Arenas {
  Arena in;
  Arena out;
};

Arenas make_arenas(Session& session, const Options& options, const std::vector<Row>& rows) {
  const std::uint64_t bytes = arena_bytes(options, rows);
  Arenas arenas;
  arenas.out = session.allocate(options.memory, bytes);
  // In place, the inputs are in the memory of the outputs.
  arenas.in = options.in_place ? arenas.out : session.allocate(options.memory, bytes);
  return arenas;
}

nlohmann::json event(const char* name) {
  return {{"event", name}};
}

// The channel for the library's log lines, and the provider of libfabric that they name. No call
// returns the provider.
struct LogContext {
  net::Channel& channel;
  std::string provider = {};
};

void send_log(void* context, int level, const char* text) {
  auto& log = *static_cast<LogContext*>(context);
  const std::string_view line = text;
  constexpr std::string_view kBefore = "libfabric's ";
  if (const auto found = line.find(kBefore); level == 0 && found != std::string_view::npos) {
    const auto from = found + kBefore.size();
    log.provider = line.substr(from, line.find_first_of(",)", from) - from);
  }
  nlohmann::json message = event("log");
  message["level"] = level;
  message["text"] = text;
  log.channel.send(message);
}

void print_log(void* context, int level, const char* text) {
  const auto* options = static_cast<const Options*>(context);
  if (level > 0 || options->rank == 0) std::cerr << "tally-perf: " << text << '\n';
}

void send_ready(net::Channel& channel, const Session& session, const LogContext& log,
                std::uint64_t steps) {
  nlohmann::json ready = event("ready");
  ready["transport"] = session.info().transport;
  ready["provider"] = log.provider;
  ready["shards"] = session.info().shards;
  ready["steps"] = steps;
  ready["host"] = net::host_name();
  channel.send(ready);
}

nlohmann::json receive_message(net::Channel& channel) {
  auto message = channel.receive();
  if (!message) throw Failure(TALLY_CANCELLED, "the conductor of the run is gone");
  return std::move(*message);
}

// The conductor reads the plan while all ranks have their sessions.
void await_start(net::Channel& channel) {
  while (receive_message(channel).value("event", "") != "start") {
  }
}

// Until the conductor lets it go on, a rank waits, or moves bytes for a ceiling.
void stand_still(net::Channel& channel, WorkerStreams& streams) {
  channel.send(event("pause"));
  for (;;) {
    const nlohmann::json message = receive_message(channel);
    if (message.value("event", "") == "resume") return;
    streams.obey(message, channel);
  }
}

RowRunner::Hooks conducted_hooks(net::Channel& channel, WorkerStreams& streams,
                                 const Options& options) {
  RowRunner::Hooks hooks;
  hooks.stepped = [&channel, done = std::uint64_t{0}, reported = Nanos{0}]() mutable {
    ++done;
    const Nanos now = monotonic_now();
    if (now - reported < kProgressEvery) return;
    reported = now;
    nlohmann::json progress = event("progress");
    progress["done"] = done;
    if (!channel.send(progress)) {
      throw Failure(TALLY_CANCELLED, "the conductor of the run is gone");
    }
  };
  if (options.ceiling) hooks.pause = [&channel, &streams] { stand_still(channel, streams); };
  return hooks;
}

// Rank 0 asks the node for all ranks.
std::function<NodeTotals()> node_totals(const Options& options) {
  if (!options.breakdown || options.rank != 0) return {};
  return [node = std::make_shared<NodeMetrics>(options)] { return node->read(); };
}

// Returns false when a result was wrong.
bool run_rows(net::Channel& channel, const Options& options) {
  // no error: the parent has made them before
  const std::vector<Row> rows = make_rows(options).value();
  LogContext log{channel};
  Session session(options, connect_s(options, 0.5), send_log, &log);
  const Arenas arenas = make_arenas(session, options, rows);
  send_ready(channel, session, log, RowRunner::steps(options) * rows.size());
  await_start(channel);
  WorkerStreams streams(options);
  RowRunner::Hooks hooks = conducted_hooks(channel, streams, options);
  hooks.totals = node_totals(options);
  bool good = true;
  for (const Row& row : rows) {
    streams.begin(row);
    RowRunner runner(session, options, row, arenas.in, arenas.out);
    const RankRow result = runner.run(hooks);
    good = good && result.complaints.empty();
    nlohmann::json message = event("row");
    message["row"] = to_json(result);
    channel.send(message);
  }
  // No rank leaves while another rank may still wait for the answer to its last barrier.
  session.barrier();
  return good;
}

// The results of a rank for a row, as 64-bit words that an all-gather copies.
struct GatheredRow {
  std::uint64_t checked, wrong, stray, hash, sum_of_squares, nonfinite, complaints, operations,
      operation_time, iterations, elapsed, times;
};

// The most times that a row can have.
std::size_t most_times(const Options& options) {
  const bool unknown = options.duration_s > 0 || options.stream;
  return unknown ? Samples::kMost : std::min<std::size_t>(options.iterations, Samples::kMost);
}
constexpr std::size_t kGatheredWords = sizeof(GatheredRow) / sizeof(std::uint64_t);
constexpr std::uint32_t kGatherTag = 0x7fff0001;

class Gather {
 public:
  Gather(Session& session, const Options& options)
      : session_(session),
        options_(options),
        words_(kGatheredWords + most_times(options)),
        in_(session.allocate(Memory::kAlloc, words_ * sizeof(std::uint64_t))),
        out_(session.allocate(Memory::kAlloc, words_ * sizeof(std::uint64_t) * options.ranks)) {}

  std::vector<RankRow> exchange(const RankRow& mine) {
    write(mine);
    tally_operation operation{};
    operation.size = sizeof operation;
    operation.kind = TALLY_ALL_GATHER;
    operation.type = TALLY_I64;
    operation.tag = kGatherTag;
    operation.count = words_ * options_.ranks;
    operation.in.region = in_.region;
    operation.out.region = out_.region;
    if (!session_.post(operation)) throw Failure(TALLY_NO_CREDIT, "no credit for a gather");
    session_.wait();
    std::vector<RankRow> rows;
    for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) rows.push_back(read(rank));
    rows[options_.rank].node = mine.node;
    return rows;
  }

 private:
  void write(const RankRow& row) {
    const GatheredRow gathered{row.checked,
                               row.wrong,
                               row.stray,
                               row.hash,
                               std::bit_cast<std::uint64_t>(row.sum_of_squares),
                               row.nonfinite,
                               row.complaints.size(),
                               row.operations,
                               static_cast<std::uint64_t>(row.operation_time),
                               row.iterations,
                               static_cast<std::uint64_t>(row.elapsed),
                               row.times.size()};
    std::memcpy(in_.data, &gathered, sizeof gathered);
    std::memcpy(in_.data + sizeof gathered, row.times.data(), row.times.size() * sizeof(Nanos));
  }

  RankRow read(std::uint32_t rank) const {
    const std::byte* at = out_.data + rank * words_ * sizeof(std::uint64_t);
    GatheredRow gathered;
    std::memcpy(&gathered, at, sizeof gathered);
    const std::size_t times = std::min<std::size_t>(gathered.times, words_ - kGatheredWords);
    RankRow row{.times = std::vector<Nanos>(times),
                .iterations = gathered.iterations,
                .elapsed = static_cast<Nanos>(gathered.elapsed),
                .checked = gathered.checked,
                .wrong = gathered.wrong,
                .stray = gathered.stray,
                .hash = gathered.hash,
                .sum_of_squares = std::bit_cast<double>(gathered.sum_of_squares),
                .nonfinite = gathered.nonfinite,
                .operations = gathered.operations,
                .operation_time = static_cast<Nanos>(gathered.operation_time),
                .node = {},
                .complaints = {}};
    std::memcpy(row.times.data(), at + sizeof gathered, row.times.size() * sizeof(Nanos));
    if (gathered.complaints != 0)
      row.complaints.push_back("something was wrong: see what it printed");
    return row;
  }

  Session& session_;
  const Options& options_;
  std::uint64_t words_;  // of one rank
  Arena in_;
  Arena out_;
};

bool run_lone_rows(const Options& options, const std::vector<Row>& rows) {
  Watchdog watchdog(options);
  Session session(options, connect_s(options, 0.9), print_log, const_cast<Options*>(&options));
  watchdog.progress();
  const Arenas arenas = make_arenas(session, options, rows);
  Gather gather(session, options);
  const bool reports = options.rank == 0;
  watchdog.progress();
  Report report(options, reports && !options.quiet);
  if (auto opened = reports ? report.open_file() : Unit{}; !opened.ok()) {
    throw Failure(TALLY_INVALID_ARGUMENT, opened.error().message);
  }
  report.set_session({session.info().transport}, session.info().shards);
  if (reports) {
    const auto prediction = query_plan(options, {});
    if (!prediction.ok()) throw Failure(TALLY_INVALID_ARGUMENT, prediction.error().message);
    if (prediction->nodes > 0 || !options.network.empty()) report.set_prediction(*prediction);
  }
  const RowRunner::Hooks hooks{
      .stepped = [&watchdog] { watchdog.progress(); }, .pause = {}, .totals = node_totals(options)};
  bool good = true;
  for (const Row& row : rows) {
    const RankRow mine = RowRunner(session, options, row, arenas.in, arenas.out).run(hooks);
    for (const std::string& complaint : mine.complaints) {
      std::cerr << "tally-perf: rank " << options.rank << ": " << complaint << '\n';
    }
    const Measurement all = merge(options, row, gather.exchange(mine));
    watchdog.progress();
    good = good && all.complaints.empty() && mine.complaints.empty();
    if (reports) report.add(row, all);
  }
  session.barrier();
  watchdog.progress();
  return (!reports || report.finish()) && good;
}

}  // namespace

int run_started_worker(UniqueFd socket, UniqueFd options_socket) {
  net::Channel channel(std::move(socket));
  const auto sent = net::Channel(std::move(options_socket)).receive();
  if (!sent) return kExitFailed;
  const Options options = options_from_json(*sent);
  try {
    const bool good = run_rows(channel, options);
    channel.send(event("done"));
    return good ? 0 : kExitWrong;
  } catch (const Failure& failure) {
    nlohmann::json message = event("failed");
    message["status"] = failure.status;
    message["message"] = failure.what();
    channel.send(message);
    // The conductor reports it on its own host only.
    if (!options.conductor_host.empty()) {
      std::cerr << "tally-perf: rank " << options.rank << ": " << failure.what() << '\n';
    }
    return kExitFailed;
  }
}

int run_lone_worker(Options options) {
  const auto rows = make_rows(options);
  if (!rows.ok()) {
    std::cerr << "tally-perf: " << rows.error().message << '\n';
    return kExitUsage;
  }
  try {
    return run_lone_rows(options, *rows) ? 0 : kExitWrong;
  } catch (const Failure& failure) {
    std::cerr << "tally-perf: rank " << options.rank << ": " << failure.what() << '\n';
    return kExitFailed;
  }
}

}  // namespace tally::perf
