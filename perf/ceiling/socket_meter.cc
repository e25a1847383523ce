#include "perf/ceiling/socket_meter.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "net/tcp.h"
#include "perf/ceiling/streams.h"
#include "perf/measure/statistics.h"

namespace tally::perf {
namespace {

constexpr Nanos kConnectTimeout = 10 * kSecond;
constexpr Nanos kHelloTimeout = 2 * kSecond;
constexpr Nanos kSampleTimeout = 60 * kSecond;
// A sample lasts about this long, so that its begin and its end count for little.
constexpr Nanos kSampleTime = 30 * kMillisecond;
constexpr double kMostPasses = 1 << 16;
constexpr std::size_t kBuffer = 256 << 10;  // of each stream at this end; the size of a tile

Error broken(std::string what) {
  return Error{Status::kUnavailable, std::move(what)};
}

}  // namespace

SocketMeter::SocketMeter(const MeterSetting& setting)
    : options_(setting.options), workers_(setting.workers), streams_(setting.workers.size()) {
  for (Streams& streams : streams_) {
    streams.in.assign(kBuffer, std::byte{0});
    streams.out.assign(kBuffer, std::byte{1});
  }
}

Result<std::unique_ptr<Meter>> SocketMeter::open(const MeterSetting& setting) {
  std::unique_ptr<SocketMeter> meter(new SocketMeter(setting));
  UniqueFd own;
  if (setting.listener < 0) {
    auto listener = net::listen_tcp({"127.0.0.1", 0});
    if (!listener.ok()) return listener.error();
    own = std::move(listener).value();
  }
  auto connected = meter->connect(setting.listener < 0 ? own.get() : setting.listener);
  if (!connected.ok()) return connected.error();
  return std::unique_ptr<Meter>(std::move(meter));
}

// Other processes that connect do not know the key.
Outcome SocketMeter::connect(int listener) {
  std::random_device random;
  const std::uint64_t key = (std::uint64_t{random()} << 32) | random();
  for (net::Channel* worker : workers_) {
    worker->send({{"event", "connect"}, {"port", net::local_port(listener)}, {"key", key}});
  }
  if (auto accepted = accept(listener, key, monotonic_now() + kConnectTimeout); !accepted.ok()) {
    return accepted;
  }
  return receive_answers();
}

bool SocketMeter::complete() const {
  return std::ranges::all_of(streams_, [](const Streams& one) { return one.up && one.down; });
}

Outcome SocketMeter::accept(int listener, std::uint64_t key, Nanos deadline) {
  while (!complete()) {
    pollfd entry{listener, POLLIN, 0};
    if (monotonic_now() >= deadline) return broken("not all workers could connect to this host");
    if (::poll(&entry, 1, 100) <= 0) continue;
    if (auto socket = net::accept_tcp(listener)) take(std::move(*socket), key, deadline);
  }
  return Unit{};
}

bool SocketMeter::take(UniqueFd socket, std::uint64_t key, Nanos deadline) {
  net::Channel channel(std::move(socket));
  const auto hello = channel.receive(std::min(deadline, monotonic_now() + kHelloTimeout));
  if (!hello) return false;
  try {
    const std::uint32_t rank = hello->at("rank");
    if (hello->at("key") != key || rank >= streams_.size()) return false;
    UniqueFd& mine = hello->at("up").get<bool>() ? streams_[rank].up : streams_[rank].down;
    mine = channel.release();
    make_stream(mine.get());
  } catch (const nlohmann::json::exception&) {
    return false;
  }
  return true;
}

// Waits for the answers of all workers.
Outcome SocketMeter::receive_answers() {
  const Nanos deadline = monotonic_now() + kSampleTimeout;
  Outcome outcome = Unit{};
  for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
    const auto answer = workers_[rank]->receive(deadline);
    if (answer && answer->value("event", "") == "streamed" && answer->value("good", false)) {
      continue;
    }
    if (outcome.ok()) outcome = broken(fmt::format("the stream of rank {} broke", rank));
  }
  return outcome;
}

Outcome SocketMeter::run(std::uint64_t passes, Nanos& time) {
  const Nanos begin = monotonic_now();
  std::atomic<bool> good = true;
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < streams_.size(); ++rank) {
      Streams& one = streams_[rank];
      const std::uint64_t up = passes * bytes_sent(options_, *row_, rank);
      const std::uint64_t down = passes * bytes_received(options_, *row_, rank);
      threads.emplace_back([&one, &good, up] {
        if (!receive_stream(one.up.get(), one.in, up)) good = false;
      });
      threads.emplace_back([&one, &good, down] {
        if (!send_stream(one.down.get(), one.out, down)) good = false;
      });
    }
    for (net::Channel* worker : workers_) worker->send({{"event", "stream"}, {"passes", passes}});
  }
  auto outcome = receive_answers();
  time = monotonic_now() - begin;
  if (outcome.ok() && !good) outcome = broken("a stream of plain sockets broke");
  return outcome;
}

std::string SocketMeter::description() const {
  return fmt::format("plain sockets, {} streams between the same hosts at once",
                     2 * workers_.size());
}

void SocketMeter::begin(const Row& row) {
  row_ = &row;
  passes_ = 1;
  times_.clear();
}

Outcome SocketMeter::sample() {
  Nanos time = 0;
  if (times_.empty()) {  // finds how many passes a sample needs; these runs do not count
    if (auto outcome = run(1, time); !outcome.ok()) return outcome;
    const double passes = static_cast<double>(kSampleTime) / static_cast<double>(time + 1);
    passes_ = static_cast<std::uint64_t>(std::clamp(passes, 1.0, kMostPasses));
    if (auto outcome = run(passes_, time); !outcome.ok()) return outcome;
    const auto each = std::max<Nanos>(1, time / static_cast<Nanos>(passes_));
    passes_ = static_cast<std::uint64_t>(
        std::clamp(static_cast<double>(kSampleTime) / static_cast<double>(each), 1.0, kMostPasses));
  }
  if (auto outcome = run(passes_, time); !outcome.ok()) return outcome;
  times_.push_back(time / static_cast<Nanos>(passes_));
  return Unit{};
}

double SocketMeter::gigabytes_per_second() const {
  if (times_.empty()) return 0;
  return perf::gigabytes_per_second(row_->bytes(), summarise(times_).p50_us);
}

}  // namespace tally::perf
