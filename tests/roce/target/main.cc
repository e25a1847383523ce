// roce-target: a RoCEv2 endpoint for tests. It is the other end of ibv_rc_pingpong and of
// perftest's programs, over a port that DPDK drives. Exit codes: 0 all well, 1 something was wrong,
// 2 usage.
#include <fmt/format.h>

#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <variant>

#include "net/tcp.h"
#include "tests/roce/target/options.h"
#include "tests/roce/target/run.h"

namespace tally::transport::roce::target {
namespace {

constexpr int kFailed = 1;
// How long the port goes on after a connection, so that the other end gets its last answers.
constexpr Nanos kQuiet = 50 * kMillisecond;

int fail(const Error& error) {
  fmt::print(stderr, "roce-target: {}\n", error.message);
  return kFailed;
}

void fall_silent(Target& target) {
  Nanos last = monotonic_now();
  while (monotonic_now() - last < kQuiet) {
    if (target.progress()) last = monotonic_now();
  }
}

// One line. True: all was well.
bool print(Target& target, const Summary& summary) {
  const Options& options = target.options();
  PairCounters all;
  for (const auto& pair : target.pairs()) {
    const PairCounters one = pair->counters();
    all.received += one.received;
    all.sent += one.sent;
    all.again += one.again;
    all.out_of_order += one.out_of_order;
    all.duplicates += one.duplicates;
    all.read_bytes += one.read_bytes;
  }
  const PortCounters port = target.port_counters();
  const std::uint64_t unreadable =
      std::accumulate(port.unreadable.begin() + 2, port.unreadable.end(), std::uint64_t{0});
  const bool is_fine = summary.checked.wrong == 0 && port.wrong_icrc == 0;
  fmt::print(
      "tool={} role={} size={} messages={} pairs={} mtu={} received={} sent={} again={} "
      "duplicates={} out_of_order={} read_bytes={} checked_bytes={} wrong_bytes={} wrong_icrc={} "
      "unreadable={} result={}\n",
      name_of(options.tool), options.is_client() ? "client" : "server", summary.size,
      summary.messages, options.pairs, summary.mtu, all.received, all.sent, all.again,
      all.duplicates, all.out_of_order, all.read_bytes, summary.checked.bytes,
      summary.checked.wrong, port.wrong_icrc, unreadable, is_fine ? "ok" : "wrong");
  std::fflush(stdout);
  return is_fine;
}

int run(const Options& options) {
  auto opened = Target::open(options);
  if (!opened) return fail(opened.error());
  Target& target = **opened;
  UniqueFd listener;
  if (!options.is_client()) {
    auto listening = net::listen_tcp({"*", options.tcp_port});
    if (!listening) return fail(listening.error());
    listener = std::move(*listening);
  }
  fmt::print("port={} driver={} port_mtu={} mtu={}\n", options.device, target.driver(),
             target.port_mtu(), target.mtu());
  std::fflush(stdout);
  bool is_fine = true;
  const std::size_t connections = options.is_client() ? options.sizes.size() : options.count;
  for (std::size_t i = 0; i < connections; ++i) {
    target.make_pairs();
    auto channel = Channel::open(target, listener.get());
    if (!channel) return fail(channel.error());
    const auto play = options.tool == Tool::kPingpong ? run_pingpong : run_perftest;
    const auto summary = play(target, *channel, options.is_client() ? options.sizes[i] : 0);
    if (!summary) return fail(summary.error());
    fall_silent(target);
    is_fine = print(target, *summary) && is_fine;
  }
  return is_fine ? 0 : kFailed;
}

}  // namespace
}  // namespace tally::transport::roce::target

int main(int argc, char** argv) {
  using namespace tally::transport::roce::target;
  try {
    const auto parsed = parse_options(argc, argv);
    if (const auto* exit = std::get_if<Exit>(&parsed)) return exit->code;
    return run(std::get<Options>(parsed));
  } catch (const std::exception& error) {
    return fail({tally::Status::kInternal, error.what()});
  }
}
