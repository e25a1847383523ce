#include "perf/measure/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <string_view>
#include <utility>

#include "base/text/sizes.h"

namespace tally::perf {
namespace {

// Bandwidths range over five orders of magnitude, so each has at least three digits.
std::string short_number(double value) {
  if (value >= 1000) return fmt::format("{:.0f}", value);
  if (value >= 100) return fmt::format("{:.1f}", value);
  if (value >= 10) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3f}", value);
}

std::string time_text(double us) {
  return us >= 1000 ? fmt::format("{:.0f}", us) : fmt::format("{:.1f}", us);
}

std::size_t tensor_count(const Row& row) {
  std::size_t tensors = 0;
  for (const Bucket& bucket : row.buckets) tensors += bucket.segments.size();
  return tensors;
}

// A stage's share of the operation's time.
std::string share(const Measurement& m, double stage_us) {
  return m.breakdown.total > 0 ? fmt::format("{:.1f}", 100 * stage_us / m.breakdown.total) : "-";
}

// Converts to Gbit/s when the user asks for it.
double bandwidth(const Options& options, double gigabytes) {
  return options.gbits ? 8 * gigabytes : gigabytes;
}

constexpr const char* kBandwidth = "GB/s";  // the unit of values that bandwidth() converts

// A column of the table: when it is shown, and what is in it.
struct Column {
  const char* title;
  const char* unit;
  int width;
  enum When { kAlways, kNotBrief, kModels, kBreakdown, kCeiling, kLatency, kPredicted } when;
  std::string (*text)(const Options& options, const Row& row, const Measurement& m);
};

using O = const Options&;
using R = const Row&;
using M = const Measurement&;

constexpr Column kColumns[] = {
    {"model", "", 10, Column::kModels, [](O, R row, M) { return row.workload; }},
    {"mode", "", 7, Column::kModels, [](O, R row, M) { return row.mode; }},
    {"tensors", "", 7, Column::kModels,
     [](O, R row, M) { return std::to_string(tensor_count(row)); }},
    {"ops", "", 4, Column::kModels, [](O, R row, M) { return std::to_string(row.buckets.size()); }},
    {"bytes", "", 11, Column::kAlways, [](O, R, M m) { return std::to_string(m.bytes); }},
    {"count", "", 10, Column::kNotBrief, [](O, R, M m) { return std::to_string(m.count); }},
    {"type", "", 4, Column::kAlways, [](O, R row, M) { return std::string(name(row.type)); }},
    {"op", "", 3, Column::kNotBrief, [](O, R row, M) { return std::string(name(row.operation)); }},
    {"min", "us", 8, Column::kLatency, [](O, R, M m) { return time_text(m.time.min_us); }},
    {"p50", "us", 8, Column::kAlways, [](O, R, M m) { return time_text(m.time.p50_us); }},
    {"p95", "us", 8, Column::kNotBrief, [](O, R, M m) { return time_text(m.time.p95_us); }},
    {"p99", "us", 8, Column::kAlways, [](O, R, M m) { return time_text(m.time.p99_us); }},
    {"max", "us", 8, Column::kLatency, [](O, R, M m) { return time_text(m.time.max_us); }},
    {"algbw", kBandwidth, 7, Column::kAlways,
     [](O options, R, M m) { return short_number(bandwidth(options, m.algbw)); }},
    {"busbw", kBandwidth, 7, Column::kNotBrief,
     [](O options, R, M m) { return short_number(bandwidth(options, m.busbw)); }},
    {"goodput", "Gbit/s", 7, Column::kAlways, [](O, R, M m) { return short_number(m.goodput); }},
    {"wait", "%", 5, Column::kBreakdown, [](O, R, M m) { return share(m, m.breakdown.waiting); }},
    {"queue", "%", 5, Column::kBreakdown, [](O, R, M m) { return share(m, m.breakdown.queueing); }},
    {"pull", "%", 5, Column::kBreakdown, [](O, R, M m) { return share(m, m.breakdown.pulling); }},
    {"sum", "%", 5, Column::kBreakdown, [](O, R, M m) { return share(m, m.breakdown.summing); }},
    {"push", "%", 5, Column::kBreakdown, [](O, R, M m) { return share(m, m.breakdown.pushing); }},
    {"wake", "%", 5, Column::kBreakdown, [](O, R, M m) { return share(m, m.breakdown.waking); }},
    {"cyc/B", "", 6, Column::kBreakdown,
     [](O, R, M m) { return fmt::format("{:.3f}", m.breakdown.cycles_per_byte); }},
    {"last", "", 16, Column::kBreakdown, [](O, R, M m) { return latest_rank(m.breakdown); }},
    {"ceiling", kBandwidth, 7, Column::kCeiling,
     [](O options, R, M m) {
       return m.ceiling > 0 ? short_number(bandwidth(options, m.ceiling)) : std::string("-");
     }},
    {"share", "", 5, Column::kCeiling,
     [](O, R, M m) {
       return m.ceiling > 0 ? fmt::format("{:.0f}%", 100 * m.algbw / m.ceiling) : "-";
     }},
    {"predict", "us", 8, Column::kPredicted,
     [](O, R, M m) { return m.predicted_us > 0 ? time_text(m.predicted_us) : std::string("-"); }},
    {"ratio", "", 5, Column::kPredicted,
     [](O, R, M m) {
       return m.predicted_us > 0 ? fmt::format("{:.2f}", m.time.p50_us / m.predicted_us) : "-";
     }},
    {"wrong", "", 6, Column::kAlways,
     [](O options, R, M m) { return options.verifies() ? std::to_string(m.wrong) : "-"; }},
    {"hash", "", 16, Column::kNotBrief, [](O, R, M m) { return fmt::format("{:016x}", m.hash); }},
};

bool shown(const Options& options, const Column& column, bool is_predicted) {
  switch (column.when) {
    case Column::kPredicted:
      return is_predicted;
    case Column::kNotBrief:
      return !options.brief;
    case Column::kModels:
      return !options.models.empty();
    case Column::kBreakdown:
      return options.breakdown;
    case Column::kCeiling:
      return options.ceiling;
    case Column::kLatency:
      return options.latency;
    case Column::kAlways:
      break;
  }
  return true;
}

template <typename Text>
void print_line(const Options& options, bool is_predicted, Text text) {
  std::string line;
  for (const Column& column : kColumns) {
    if (shown(options, column, is_predicted))
      line += fmt::format("{:>{}} ", text(column), column.width);
  }
  line.back() = '\n';
  fmt::print("{}", line);
}

std::string bandwidth_key(const Options& options, const char* what) {
  return fmt::format("{}_{}", what, options.gbits ? "Gbps" : "GBps");
}

nlohmann::ordered_json row_json(const Options& options, const Row& row, const Measurement& m) {
  nlohmann::ordered_json object = {
      {"collective", kind_name(options.kind)},
      {"workload", row.workload},
      {"mode", row.mode},
      {"tensors", tensor_count(row)},
      {"operations", row.buckets.size()},
      {"ranks", options.ranks},
      {"bytes", m.bytes},
      {"count", m.count},
      {"type", name(row.type)},
      {"op", name(row.operation)},
      {"in_place", options.in_place},
      {"inflight", options.inflight},
      {"iterations", m.iterations},
      {"time_us_min", m.time.min_us},
      {"time_us_mean", m.time.mean_us},
      {"time_us_p50", m.time.p50_us},
      {"time_us_p95", m.time.p95_us},
      {"time_us_p99", m.time.p99_us},
      {"time_us_max", m.time.max_us},
      {bandwidth_key(options, "algbw"), bandwidth(options, m.algbw)},
      {bandwidth_key(options, "busbw"), bandwidth(options, m.busbw)},
      {"goodput_Gbps", m.goodput},
      {"checked", m.checked},
      {"wrong", nullptr},
      {"stray_bytes", m.stray},
      {"hash", fmt::format("{:016x}", m.hash)},
      {"complaints", m.complaints},
  };
  if (options.verifies()) object["wrong"] = m.wrong;
  if (options.stats) {
    object["sum_of_squares"] = m.sum_of_squares;
    object["nonfinite"] = m.nonfinite;
  }
  if (options.breakdown) object["breakdown"] = to_json(m.breakdown);
  if (m.predicted_us > 0) {
    object["predicted_us"] = m.predicted_us;
    object["predicted_ratio"] = m.time.p50_us / m.predicted_us;
  }
  if (m.ceiling > 0) {
    object[bandwidth_key(options, "ceiling")] = bandwidth(options, m.ceiling);
    object["ceiling_share"] = m.algbw / m.ceiling;
  }
  return object;
}

// The time of an iteration divided by --inflight, as p50 is. 0 when the plan predicts nothing: for
// other collectives, for operations that go whole to a tree, and for streamed operations, which
// queue behind others.
double predicted_us(const Options& options, const Row& row, const Prediction& prediction) {
  if (options.kind != TALLY_ALL_REDUCE || options.stream) return 0;
  const std::uint64_t element = element_bytes(row.type);
  for (const Bucket& bucket : row.buckets) {
    if (bucket.count * element < prediction.split_bytes) return 0;
  }
  return prediction.seconds(row.bytes()) * 1e6 / options.inflight;
}

}  // namespace

std::string transport_text(const std::vector<std::string>& transports) {
  std::map<std::string, std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < transports.size(); ++rank) {
    ranks[transports[rank]].push_back(rank);
  }
  if (ranks.size() == 1) return transports[0];
  std::vector<std::string> parts;
  for (const auto& [transport, numbers] : ranks) {
    parts.push_back(fmt::format("{} (rank {})", transport, fmt::join(numbers, ",")));
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

Report::Report(const Options& options, bool verbose) : options_(options), verbose_(verbose) {
  document_ = {{"tool", "tally-perf"}, {"version", TALLY_VERSION}};
}

Outcome Report::open_file() {
  if (options_.json.empty() || options_.json == "-") return Unit{};
  auto file = OutputFile::create(options_.json);
  if (!file) return Error{file.status(), file.error().message + "; give another --json"};
  file_.emplace(std::move(file).value());
  return Unit{};
}

void Report::set_session(const std::vector<std::string>& transports, std::uint32_t shards) {
  const std::string transport = transport_text(transports);
  document_["transport"] = transport;
  document_["transports"] = transports;
  document_["shards"] = shards;
  document_["ranks"] = options_.ranks;
  if (!verbose_) return;
  const std::string iterations = options_.duration_s > 0
                                     ? fmt::format("{} s of iterations", options_.duration_s)
                                     : fmt::format("{} iterations", options_.iterations);
  fmt::print("# {}, {} workers, {} shard{}, transport {}, {}{}, {} after {} of warm-up\n",
             kind_name(options_.kind), options_.ranks, shards, shards == 1 ? "" : "s", transport,
             options_.in_place ? "in place" : "out of place", options_.stream ? ", streaming" : "",
             iterations, options_.warmup);
  std::fflush(stdout);  // shows the reader of a pipe that the run is under way
}

void Report::set_prediction(const Prediction& prediction) {
  document_["plan"] = to_json(prediction);
  if (verbose_) fmt::print("{}", render(prediction));
  if (prediction.why_none.empty()) prediction_ = prediction;
}

void Report::set_ceiling(const std::string& text, bool there_is_one) {
  document_["ceiling"] = text;
  if (verbose_) fmt::print("# {}: {}\n", there_is_one ? "ceiling" : "no ceiling", text);
}

void Report::add(const Row& row, const Measurement& measured) {
  Measurement m = measured;
  if (prediction_) m.predicted_us = predicted_us(options_, row, *prediction_);
  const double seconds = m.time.p50_us * 1e-6 * options_.inflight;
  if (m.predicted_us > 0 && row.bytes() > link_bytes_) {
    link_bytes_ = row.bytes();
    link_seconds_ = seconds;
  }
  checked_ += m.checked;
  wrong_ += m.wrong;
  stray_ += m.stray;
  complaints_ += m.complaints.size();
  rows_.push_back(row_json(options_, row, m));
  if (m.predicted_us > 0) rows_.back()["links"] = links_in(*prediction_, row.bytes(), seconds);
  if (verbose_) {
    if (!std::exchange(header_printed_, true)) {
      print_line(options_, prediction_.has_value(),
                 [](const Column& column) { return column.title; });
      print_line(options_, prediction_.has_value(), [this](const Column& column) {
        return column.unit == std::string_view(kBandwidth) && options_.gbits ? "Gbit/s"
                                                                             : column.unit;
      });
    }
    print_line(options_, prediction_.has_value(),
               [&](const Column& column) { return column.text(options_, row, m); });
    std::fflush(stdout);
  }
  for (const std::string& complaint : m.complaints)
    std::cerr << "tally-perf: " << complaint << '\n';
}

bool Report::finish() {
  document_["checked"] = checked_;
  document_["wrong"] = wrong_;
  document_["good"] = good();
  document_["rows"] = std::move(rows_);
  if (verbose_ && link_bytes_ > 0) {
    fmt::print("{}", render_links_in(*prediction_, link_bytes_, link_seconds_));
  }
  if (verbose_ && options_.verifies() && options_.kind != TALLY_BARRIER) {
    fmt::print("# {} wrong of {} elements checked", wrong_, checked_);
    if (stray_ != 0) fmt::print(", {} bytes changed outside of results", stray_);
    fmt::print("\n");
    std::fflush(stdout);
  }
  if (options_.json == "-") std::cout << document_.dump(2) << std::endl;
  // A run that failed before its first row keeps the older file, which has more to report.
  if (!file_ || document_["rows"].empty()) return true;
  file_->stream() << document_.dump(2) << '\n';
  const Outcome written = file_->commit();
  if (!written) std::cerr << "tally-perf: " << written.error().message << '\n';
  return written.ok();
}

}  // namespace tally::perf
