#include "perf/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>

#include "perf/sizes.h"

namespace tally::perf {
namespace {

// Bandwidths range over five orders of magnitude: three digits or more of each.
std::string short_number(double value) {
  if (value >= 1000) return fmt::format("{:.0f}", value);
  if (value >= 100) return fmt::format("{:.1f}", value);
  if (value >= 10) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3f}", value);
}

std::string time_text(double us) {
  return us >= 1000 ? fmt::format("{:.0f}", us) : fmt::format("{:.1f}", us);
}

std::string wrong_text(const Options& options, const Measurement& m) {
  return options.verifies() ? fmt::format("{}", m.wrong) : "-";
}

std::string share_text(const Measurement& m) {
  return m.ceiling > 0 ? fmt::format("{:.0f}%", 100 * m.algbw / m.ceiling) : "-";
}

nlohmann::json row_json(const Options& options, const Row& row, const Measurement& m) {
  nlohmann::json json = {
      {"collective", kind_name(options.kind)},
      {"workload", row.workload},
      {"mode", row.mode},
      {"operations", row.buckets.size()},
      {"ranks", options.ranks},
      {"bytes", m.bytes},
      {"count", m.count},
      {"type", name(row.type)},
      {"op", name(row.operation)},
      {"in_place", options.in_place},
      {"inflight", options.inflight},
      {"iterations", options.iterations},
      {"time_us_min", m.time.min_us},
      {"time_us_mean", m.time.mean_us},
      {"time_us_p50", m.time.p50_us},
      {"time_us_p95", m.time.p95_us},
      {"time_us_p99", m.time.p99_us},
      {"time_us_max", m.time.max_us},
      {"algbw_GBps", m.algbw},
      {"busbw_GBps", m.busbw},
      {"goodput_Gbps", m.goodput},
      {"checked", m.checked},
      {"wrong", nullptr},
      {"stray_bytes", m.stray},
      {"hash", fmt::format("{:016x}", m.hash)},
      {"complaints", m.complaints},
  };
  if (options.verifies()) json["wrong"] = m.wrong;
  if (options.stats) {
    json["sum_of_squares"] = m.sum_of_squares;
    json["nonfinite"] = m.nonfinite;
  }
  if (m.ceiling > 0) {
    json["ceiling_GBps"] = m.ceiling;
    json["ceiling_share"] = m.algbw / m.ceiling;
  }
  return json;
}

}  // namespace

Report::Report(const Options& options, bool verbose) : options_(options), verbose_(verbose) {
  document_ = {{"tool", "tally-perf"}, {"rows", nlohmann::json::array()}};
}

void Report::set_session(const std::string& transport, std::uint32_t shards) {
  document_["transport"] = transport;
  document_["shards"] = shards;
  if (!verbose_) return;
  fmt::print("# {}, {} workers, {} shard{}, transport {}, {}, {} iterations after {} of warm-up\n",
             kind_name(options_.kind), options_.ranks, shards, shards == 1 ? "" : "s", transport,
             options_.in_place ? "in place" : "out of place", options_.iterations, options_.warmup);
}

void Report::print_header() const {
  const bool models = !options_.models.empty();
  if (models) fmt::print("{:>12} {:>8} {:>7} ", "model", "mode", "ops");
  fmt::print("{:>12} {:>11} {:>5} {:>4} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} ", "bytes", "count",
             "type", "op", "p50", "p95", "p99", "algbw", "busbw", "goodput");
  if (options_.ceiling) fmt::print("{:>8} {:>6} ", "ceiling", "share");
  fmt::print("{:>6}  {:<16}\n", "wrong", "hash");
  if (models) fmt::print("{:>29} ", "");
  fmt::print("{:>12} {:>11} {:>5} {:>4} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} ", "", "", "", "",
             "us", "us", "us", "GB/s", "GB/s", "Gbit/s");
  if (options_.ceiling) fmt::print("{:>8} {:>6} ", "GB/s", "");
  fmt::print("\n");
}

void Report::print_row(const Row& row, const Measurement& m) const {
  if (!options_.models.empty()) {
    fmt::print("{:>12} {:>8} {:>7} ", row.workload, row.mode, row.buckets.size());
  }
  fmt::print("{:>12} {:>11} {:>5} {:>4} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} ", m.bytes, m.count,
             name(row.type), name(row.operation), time_text(m.time.p50_us),
             time_text(m.time.p95_us), time_text(m.time.p99_us), short_number(m.algbw),
             short_number(m.busbw), short_number(m.goodput));
  if (options_.ceiling) fmt::print("{:>8} {:>6} ", short_number(m.ceiling), share_text(m));
  fmt::print("{:>6}  {:016x}\n", wrong_text(options_, m), m.hash);
}

void Report::add(const Row& row, const Measurement& m) {
  checked_ += m.checked;
  wrong_ += m.wrong;
  stray_ += m.stray;
  complaints_ += m.complaints.size();
  document_["rows"].push_back(row_json(options_, row, m));
  if (verbose_) {
    if (!header_printed_) print_header();
    header_printed_ = true;
    print_row(row, m);
    std::fflush(stdout);
  }
  for (const std::string& words : m.complaints) std::cerr << "tally-perf: " << words << '\n';
}

bool Report::finish() {
  document_["checked"] = checked_;
  document_["wrong"] = wrong_;
  document_["good"] = good();
  if (verbose_ && options_.verifies() && options_.kind != TALLY_BARRIER) {
    fmt::print("# {} wrong of {} elements checked", wrong_, checked_);
    if (stray_ != 0) fmt::print(", {} bytes changed outside of results", stray_);
    fmt::print("\n");
    std::fflush(stdout);
  }
  if (options_.json.empty()) return true;
  const std::string text = document_.dump(2) + '\n';
  if (options_.json == "-") {
    std::cout << text << std::flush;
    return true;
  }
  std::ofstream file(options_.json);
  file << text << std::flush;
  if (!file) std::cerr << "tally-perf: cannot write " << options_.json << '\n';
  return static_cast<bool>(file);
}

}  // namespace tally::perf
