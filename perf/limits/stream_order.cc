// What an operation on memory of a GPU costs the stream that orders it, as one rank sees it:
//
// - the round trip of a stream without an operation, and with one of 4 KiB
// - for larger operations: the time of the operation on an idle stream, and the gap that it makes
//   between the work before it and the work after it when all three are enqueued at once
//
// Prints medians in microseconds as JSON. perf/limits/gpu.py runs it.
//
// usage: stream_order ADDRESS RANK RANKS
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "perf/measure/device.h"
#include "perf/measure/session.h"

namespace tally::perf {
namespace {

constexpr int kRoundTrips = 200;
constexpr int kRounds = 20;
constexpr std::uint64_t kSmall = 4 << 10;
constexpr std::uint64_t kLargest = 64 << 20;
constexpr int kBusyWrites = 20;  // of kLargest bytes: some ms of work of a GPU

double median_of(int rounds, const std::function<double()>& round) {
  std::vector<double> values;
  for (int i = 0; i < rounds; ++i) values.push_back(round());
  std::ranges::nth_element(values, values.begin() + rounds / 2);
  return values[static_cast<std::size_t>(rounds / 2)];
}

class StreamOrder {
 public:
  StreamOrder(const Options& options, Device& device)
      : session_(
            options, 10, [](void*, int, const char*) {}, nullptr),
        driver_(device.driver()),
        current_(driver_, device.context()),
        buffer_(session_.allocate(Memory::kCuda, kLargest)),
        busy_(device.allocate(kLargest)) {
    if (!busy_) throw Failure(TALLY_NO_MEMORY, busy_.error().message);
    for (cuda::Event* event : {&before_, &after_}) check(driver_.event_create(event, 0));
  }

  nlohmann::json measure() {
    nlohmann::json result;
    result["empty_us"] = median_of(kRoundTrips, [&] { return round_trip(false); });
    result["small_us"] = median_of(kRoundTrips, [&] { return round_trip(true); });
    for (std::uint64_t bytes = 1 << 20; bytes <= kLargest; bytes *= 4) {
      const double own = median_of(kRounds, [&] { return between(bytes, false); });
      const double gap = median_of(kRounds, [&] { return between(bytes, true); });
      result["sizes"].push_back({{"bytes", bytes}, {"own_us", own}, {"gap_us", gap}});
    }
    session_.barrier();
    return result;
  }

 private:
  void check(cuda::Code code) const {
    if (code == cuda::Code::kSuccess) return;
    throw Failure(TALLY_INTERNAL, cuda::failure(driver_, "CUDA", code).message);
  }
  cuda::Stream stream() const { return static_cast<cuda::Stream>(session_.stream()); }

  void post(std::uint64_t bytes) {
    tally_operation operation{};
    operation.size = sizeof operation;
    operation.kind = TALLY_ALL_REDUCE;
    operation.type = TALLY_F32;
    operation.count = bytes / sizeof(float);
    operation.in.region = operation.out.region = buffer_.region;
    operation.stream = session_.stream();
    if (!session_.post(operation)) throw Failure(TALLY_NO_CREDIT, "no credit");
  }

  double round_trip(bool with_operation) {
    const Nanos begin = monotonic_now();
    check(driver_.memset_d32_async(*busy_, 0, 1, stream()));
    if (with_operation) post(kSmall);
    check(driver_.stream_synchronize(stream()));
    const Nanos time = monotonic_now() - begin;
    if (with_operation) session_.wait();
    return static_cast<double>(time) / kMicrosecond;
  }

  void keep_busy() const {
    for (int i = 0; i < kBusyWrites; ++i) {
      check(driver_.memset_d32_async(*busy_, 0, kLargest / sizeof(float), stream()));
    }
  }

  // The device's time from the end of the work before the operation to the begin of that behind it.
  double between(std::uint64_t bytes, bool busy) {
    session_.barrier();
    if (busy) keep_busy();
    check(driver_.event_record(before_, stream()));
    post(bytes);
    check(driver_.event_record(after_, stream()));
    if (busy) keep_busy();
    check(driver_.stream_synchronize(stream()));
    session_.wait();
    float ms = 0;
    check(driver_.event_elapsed_time(&ms, before_, after_));
    return static_cast<double>(ms) * 1000;
  }

  Session session_;
  const cuda::Driver& driver_;
  cuda::CurrentContext current_;
  Arena buffer_;
  Result<cuda::Pointer> busy_;
  cuda::Event before_ = nullptr;
  cuda::Event after_ = nullptr;
};

int run(const char* address, const char* rank, const char* ranks) {
  Options options;
  options.address = address;
  options.job = "stream-order";
  options.rank = static_cast<std::uint32_t>(std::strtoul(rank, nullptr, 10));
  options.ranks = static_cast<std::uint32_t>(std::strtoul(ranks, nullptr, 10));
  auto device = Device::open(options.rank);
  if (!device) throw Failure(TALLY_UNSUPPORTED, device.error().message);
  StreamOrder order(options, **device);
  const nlohmann::json result = order.measure();
  if (options.rank == 0) fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace
}  // namespace tally::perf

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: stream_order ADDRESS RANK RANKS\n");
    return 2;
  }
  try {
    return tally::perf::run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "stream_order: {}\n", error.what());
    return 1;
  }
}
