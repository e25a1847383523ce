#include "perf/ceiling/meter.h"

#include <fmt/format.h>

#include <algorithm>

#include "perf/ceiling/ceiling.h"
#include "perf/ceiling/copy_meter.h"
#include "perf/ceiling/socket_meter.h"

namespace tally::perf {
namespace {

class MemoryMeter final : public Meter {
 public:
  MemoryMeter(const Options& options, const std::vector<Row>& rows)
      : ceiling_(minimal_traffic(options.kind, options.ranks), most_bytes(rows), options.in_place,
                 options.ceiling_threads) {}

  std::string description() const override {
    return fmt::format("memory, {} threads of one process", ceiling_.threads());
  }
  void begin(const Row& row) override { ceiling_.begin(row.bytes()); }
  Outcome sample() override {
    ceiling_.sample();
    return Unit{};
  }
  double gigabytes_per_second() const override { return ceiling_.gigabytes_per_second(); }

 private:
  static std::uint64_t most_bytes(const std::vector<Row>& rows) {
    std::uint64_t most = 0;
    for (const Row& row : rows) most = std::max(most, row.bytes());
    return most;
  }

  Ceiling ceiling_;
};

Error none(std::string why) {
  return Error{Status::kUnsupported, std::move(why)};
}

// The providers of libfabric that use the kernel's TCP.
bool is_tcp(const std::string& provider) {
  return provider.starts_with("tcp") || provider.starts_with("net") ||
         provider.starts_with("sockets");
}

}  // namespace

Result<std::unique_ptr<Meter>> make_meter(const MeterSetting& setting) {
  const std::string& transport = setting.transports.front();
  if (std::ranges::count(setting.transports, transport) != std::ssize(setting.transports)) {
    return none("ranks use different transports; force one with --transport");
  }
  if (setting.options.memory == Memory::kCuda) return CopyMeter::open(setting);
  if (transport == "shm") {
    return std::unique_ptr<Meter>(std::make_unique<MemoryMeter>(setting.options, setting.rows));
  }
  if (transport != "fabric") {
    return none(fmt::format("what moves the same bytes beside {} is perftest: perf/limits/rdma.py",
                            transport));
  }
  for (const std::string& provider : setting.providers) {
    if (is_tcp(provider)) continue;
    return none(fmt::format("plain sockets say nothing about libfabric's {}",
                            provider.empty() ? "unknown provider" : provider));
  }
  if (!setting.own_node) {
    return none(
        "plain sockets would have to end where the node runs: let --spawn or --serve start it");
  }
  return SocketMeter::open(setting);
}

}  // namespace tally::perf
