#include "perf/measure/breakdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "perf/measure/session.h"

namespace tally::perf {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeTotals, parts, bytes, waiting, queueing, pulling, summing,
                                   pushing, cycles_per_ns, times_last, lateness)

namespace {

constexpr Nanos kTimeout = 10 * kSecond;

rpc::RpcChannel connect(const std::string& address, const std::string& token) {
  auto channel = rpc::RpcChannel::connect_as_user(address, kTimeout, token);
  if (!channel) throw Failure(TALLY_UNAVAILABLE, "--breakdown: " + channel.error().message);
  return std::move(channel).value();
}

double microseconds(Nanos span) {
  return static_cast<double>(span) / kMicrosecond;
}

NodeTotals parse(const nlohmann::json& answer) {
  const nlohmann::json& times = answer.at("times");
  NodeTotals totals{.parts = times.at("parts"),
                    .bytes = times.at("bytes"),
                    .waiting = times.at("waiting_ns"),
                    .queueing = times.at("queueing_ns"),
                    .pulling = times.at("pulling_ns"),
                    .summing = times.at("summing_ns"),
                    .pushing = times.at("pushing_ns"),
                    .cycles_per_ns = answer.at("cycles_per_ns"),
                    .times_last = {},
                    .lateness = {}};
  for (const nlohmann::json& rank : answer.at("ranks")) {
    totals.times_last.push_back(rank.at("times_last"));
    totals.lateness.push_back(rank.at("lateness_ns"));
  }
  return totals;
}

}  // namespace

nlohmann::json to_json(const NodeTotals& totals) {
  return totals;
}
NodeTotals node_totals_from_json(const nlohmann::json& json) {
  return json.get<NodeTotals>();
}

NodeTotals NodeTotals::since(const NodeTotals& before) const {
  NodeTotals grown = *this;
  grown.parts -= before.parts;
  grown.bytes -= before.bytes;
  grown.waiting -= before.waiting;
  grown.queueing -= before.queueing;
  grown.pulling -= before.pulling;
  grown.summing -= before.summing;
  grown.pushing -= before.pushing;
  for (std::size_t rank = 0; rank < std::min(lateness.size(), before.lateness.size()); ++rank) {
    grown.times_last[rank] -= before.times_last[rank];
    grown.lateness[rank] -= before.lateness[rank];
  }
  return grown;
}

NodeTotals& NodeTotals::operator+=(const NodeTotals& more) {
  parts += more.parts;
  bytes += more.bytes;
  waiting += more.waiting;
  queueing += more.queueing;
  pulling += more.pulling;
  summing += more.summing;
  pushing += more.pushing;
  cycles_per_ns = more.cycles_per_ns;
  times_last.resize(std::max(times_last.size(), more.times_last.size()));
  lateness.resize(std::max(lateness.size(), more.lateness.size()));
  for (std::size_t i = 0; i < more.times_last.size(); ++i) times_last[i] += more.times_last[i];
  for (std::size_t i = 0; i < more.lateness.size(); ++i) lateness[i] += more.lateness[i];
  return *this;
}

NodeMetrics::NodeMetrics(const Options& options)
    : options_(options), channel_(connect(options.address, options.token)) {}

NodeTotals NodeMetrics::read() {
  const auto answer =
      channel_.query("node.metrics", {{"job", options_.job}}, monotonic_now() + kTimeout);
  if (!answer) {
    const bool is_old = answer.status() == Status::kUnsupported;
    throw Failure(is_old ? TALLY_UNSUPPORTED : TALLY_UNAVAILABLE,
                  is_old ? "--breakdown: the node does not know node.metrics, it is older than "
                           "this tally-perf: install matching releases, or leave --breakdown out"
                         : "--breakdown: " + answer.error().message);
  }
  try {
    return parse(*answer);
  } catch (const nlohmann::json::exception& wrong) {
    throw Failure(TALLY_PROTOCOL, fmt::format("--breakdown: node.metrics: {}", wrong.what()));
  }
}

Breakdown break_down(const NodeTotals& node, std::uint64_t operations, Nanos time) {
  Breakdown result;
  if (node.parts == 0 || operations == 0) return result;
  const auto mean = [&](Nanos total) {
    return microseconds(total) / static_cast<double>(node.parts);
  };
  result.total = microseconds(time) / static_cast<double>(operations);
  result.waiting = mean(node.waiting);
  result.queueing = mean(node.queueing);
  result.pulling = mean(node.pulling);
  result.summing = mean(node.summing);
  result.pushing = mean(node.pushing);
  result.waking = result.total -
                  mean(node.waiting + node.queueing + node.pulling + node.summing + node.pushing);
  if (node.bytes > 0) {
    result.cycles_per_byte =
        static_cast<double>(node.summing) * node.cycles_per_ns / static_cast<double>(node.bytes);
  }
  for (std::size_t rank = 0; rank < node.times_last.size(); ++rank) {
    const std::uint64_t times = node.times_last[rank];
    const double late =
        times > 0 ? microseconds(node.lateness[rank]) / static_cast<double>(times) : 0;
    result.ranks.push_back({static_cast<std::uint32_t>(rank), times, late});
  }
  return result;
}

nlohmann::json to_json(const Breakdown& breakdown) {
  nlohmann::json ranks = nlohmann::json::array();
  for (const Lateness& one : breakdown.ranks) {
    ranks.push_back({{"rank", one.rank}, {"times_last", one.times_last}, {"late_us", one.mean_us}});
  }
  return {{"operation_us", breakdown.total},   {"waiting_us", breakdown.waiting},
          {"queueing_us", breakdown.queueing}, {"pulling_us", breakdown.pulling},
          {"summing_us", breakdown.summing},   {"pushing_us", breakdown.pushing},
          {"waking_us", breakdown.waking},     {"cycles_per_byte", breakdown.cycles_per_byte},
          {"ranks", std::move(ranks)}};
}

std::string latest_rank(const Breakdown& breakdown) {
  std::uint64_t all = 0;
  const Lateness* latest = nullptr;
  for (const Lateness& one : breakdown.ranks) {
    all += one.times_last;
    if (latest == nullptr || one.times_last > latest->times_last) latest = &one;
  }
  if (all == 0) return "-";
  return fmt::format("r{} {}% {:.1f}us", latest->rank, 100 * latest->times_last / all,
                     latest->mean_us);
}

}  // namespace tally::perf
