// Measures transport roce over a port of DPDK, beside loops over the same port that have no
// connections. The node and its workers are two threads with a port each, and the ports are
// connected. Prints a line of JSON for each round of each variant; perf/limits/roce.py reads it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "dataplane/engine/eal.h"
#include "perf/limits/roce/must.h"
#include "perf/limits/roce/node.h"

namespace tally::perf {
namespace {

constexpr unsigned kLimitSeconds = 300;
constexpr Nanos kConnectTimeout = 10 * kSecond;
constexpr std::uint32_t kMemoryMib = 256;
constexpr std::size_t kAlignment = 4096;
constexpr std::uint32_t kHeaders = 84;  // as tallyd, like the next ones
constexpr std::uint32_t kHeldFrames = 2048;
constexpr std::size_t kKeptFrames = kHeldFrames / 4 * 3;
constexpr std::uint32_t kGuestEntries = 256;  // of net_virtio_user's queues

constexpr roce::IpAddress address_of(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, last};
}
constexpr roce::IpAddress kNode = address_of(1);
constexpr roce::IpAddress kWorker = address_of(2);

End open_end(const std::string& device, const roce::IpAddress& address, std::uint32_t mtu) {
  roce::PortOptions options{.device = device, .addresses = {address}, .mtu = mtu + kHeaders};
  options.held_buffers = kHeldFrames;
  if (device.starts_with("net_virtio_user")) {
    options.receive_entries = options.transmit_entries = kGuestEntries;
  }
  End end;
  end.port = must(roce::Port::open(options));
  roce::ResolverOptions resolver;
  resolver.mac = end.port->facts().mac;
  resolver.addresses = {{.address = address}};
  end.link =
      std::make_unique<CountedLink>(end.port, std::make_shared<roce::SharedResolver>(resolver), 0);
  return end;
}

int measure(const std::vector<std::string>& devices, std::uint32_t mtu, std::size_t kept_frames,
            int rounds, const std::vector<std::string>& variants) {
  ::alarm(kLimitSeconds);
  engine::EalOptions options;
  options.shards = 2;
  options.hugepages = engine::Hugepages::kOff;
  options.memory_mib = kMemoryMib;
  const auto eal = must(engine::Eal::start(options));
  const auto source = must(eal->allocate(kRegionBytes, kAlignment));
  const auto target = must(eal->allocate(kRegionBytes, kAlignment));
  const auto memory = must(eal->allocate(Node::kMemory, kAlignment));
  const auto all_of = [](const engine::EalMemory& one) {
    return std::span(one.data(), one.size());
  };
  fill(all_of(source));
  End node_end = open_end(devices[0], kNode, mtu);
  End workers_end = open_end(devices[1], kWorker, mtu);
  const Nanos end = monotonic_now() + kConnectTimeout;
  while (!node_end.port->link().is_up || !workers_end.port->link().is_up) {
    if (monotonic_now() > end) fail("the ports do not connect");
  }
  const Workers::Setup setup{kWorker, kNode, mtu, all_of(source), all_of(target)};
  auto workers = std::make_unique<Workers>(*workers_end.link, setup);
  WorkersThread others(*workers);
  auto node = std::make_unique<Node>(
      std::move(node_end), *workers, others,
      Node::Setup{kNode, kWorker, mtu, kept_frames, all_of(memory), all_of(target)});
  const auto body = [&] {
    node->check();
    for (int round = 0; round < rounds; ++round) {
      for (const std::string& variant : variants) node->measure(variant);
    }
    others.command(WorkersThread::Mode::kStop, [] {});
  };
  if (!eal->launch(1, [&] { others.run(); }) || !eal->launch(0, body)) fail("no threads");
  eal->join();
  // The guest's port goes first, because it writes to the host's when it ends.
  workers.reset();
  workers_end = End{};
  node.reset();
  return 0;
}

}  // namespace
}  // namespace tally::perf

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const int mtu = arguments.size() >= 5 ? std::atoi(argv[3]) : 0;
  const int rounds = arguments.size() >= 5 ? std::atoi(argv[4]) : 0;
  const bool is_mtu = mtu == 1024 || mtu == 2048 || mtu == 4096;
  if (!is_mtu || rounds < 1 || rounds > 1000) {
    std::fprintf(
        stderr,
        "usage: roce_port NODE-DEVICE WORKERS-DEVICE MTU[,KEPT-FRAMES] ROUNDS VARIANT...\n"
        "variants: read[:CONNECTIONSxDEPTH] shard-reduce read-stateless rxonly\n"
        "          write[:CONNECTIONSxDEPTH] shard-broadcast write-stateless txonly icrc\n"
        "MTU: 1024, 2048 or 4096, bytes of payload of a packet\n"
        "KEPT-FRAMES: that the transport may keep until they are summed; without: as in tallyd\n"
        "DEPTH: operations in flight of each connection; without: 4x2\n");
    return 2;
  }
  const std::size_t comma = arguments[2].find(',');
  const std::size_t kept = comma == std::string::npos
                               ? tally::perf::kKeptFrames
                               : std::strtoull(argv[3] + comma + 1, nullptr, 10);
  return tally::perf::measure({arguments[0], arguments[1]}, static_cast<std::uint32_t>(mtu), kept,
                              rounds, {arguments.begin() + 4, arguments.end()});
}
