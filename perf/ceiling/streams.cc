#include "perf/ceiling/streams.h"
#include "net/tcp.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

namespace tally::perf {
namespace {

constexpr std::size_t kChunk = 256 << 10;  // the size of a tile
constexpr time_t kStillSeconds = 10;
constexpr Nanos kStreamTimeout = 5 * kSecond;
constexpr std::uint64_t kMostStreamPasses = 1 << 20;

using Part = Extent (*)(tally_kind, std::uint64_t, std::uint32_t, std::uint32_t, std::uint32_t);

std::uint64_t bytes_of(Part part, const Options& options, const Row& row, std::uint32_t rank) {
  std::uint64_t elements = 0;
  for (const Bucket& bucket : row.buckets) {
    elements += part(options.kind, bucket.count, rank, options.ranks, options.root).count;
  }
  return elements * element_bytes(row.type);
}

// Names one of a worker's two connections, because the conductor accepts them in any order.
bool introduce(net::Channel& stream, std::uint64_t key, std::uint32_t rank, bool up) {
  return stream.send({{"event", "stream"}, {"key", key}, {"rank", rank}, {"up", up}});
}

}  // namespace

std::uint64_t bytes_sent(const Options& options, const Row& row, std::uint32_t rank) {
  return bytes_of(contribution, options, row, rank);
}

std::uint64_t bytes_received(const Options& options, const Row& row, std::uint32_t rank) {
  return bytes_of(result, options, row, rank);
}

void make_stream(int socket) {
  const timeval still{kStillSeconds, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &still, sizeof still);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &still, sizeof still);
  ::fcntl(socket, F_SETFL, 0);
}

bool send_stream(int socket, std::span<const std::byte> buffer, std::uint64_t bytes) {
  for (std::uint64_t passed = 0; passed < bytes;) {
    const std::size_t at = passed % buffer.size();
    const std::size_t most = std::min<std::uint64_t>({kChunk, buffer.size() - at, bytes - passed});
    const ssize_t count = ::send(socket, buffer.data() + at, most, MSG_NOSIGNAL);
    if (count <= 0) return false;
    passed += static_cast<std::uint64_t>(count);
  }
  return true;
}

bool receive_stream(int socket, std::span<std::byte> buffer, std::uint64_t bytes) {
  for (std::uint64_t passed = 0; passed < bytes;) {
    const std::size_t at = passed % buffer.size();
    const std::size_t most = std::min<std::uint64_t>({kChunk, buffer.size() - at, bytes - passed});
    const ssize_t count = ::recv(socket, buffer.data() + at, most, 0);
    if (count <= 0) return false;
    passed += static_cast<std::uint64_t>(count);
  }
  return true;
}

void WorkerStreams::obey(const nlohmann::json& message, net::Channel& conductor) {
  const bool connects = message.at("event") == "connect";
  const bool good = connects ? connect(message) : stream(message.at("passes"));
  conductor.send({{"event", "streamed"}, {"good", good}});
}

bool WorkerStreams::connect(const nlohmann::json& message) {
  const std::string& host = options_.conductor_host;
  const net::HostPort where{host.empty() ? "127.0.0.1" : net::bracketed(host),
                            message.at("port").get<std::uint16_t>()};
  const std::uint64_t key = message.at("key");
  for (UniqueFd* socket : {&up_, &down_}) {
    auto made = net::connect_tcp(where, monotonic_now() + kStreamTimeout);
    if (!made.ok()) return false;
    net::Channel stream(std::move(made).value());
    if (!introduce(stream, key, options_.rank, socket == &up_)) return false;
    *socket = stream.release();
    make_stream(socket->get());
  }
  return true;
}

bool WorkerStreams::stream(std::uint64_t passes) {
  if (!up_ || !down_ || row_ == nullptr || passes > kMostStreamPasses) return false;
  in_.resize(bytes_sent(options_, *row_, options_.rank), std::byte{1});
  out_.resize(bytes_received(options_, *row_, options_.rank), std::byte{1});
  bool sent = true;
  std::jthread sender([&] {
    if (!in_.empty()) sent = send_stream(up_.get(), in_, in_.size() * passes);
  });
  const bool received = out_.empty() || receive_stream(down_.get(), out_, out_.size() * passes);
  sender.join();
  return sent && received;
}

}  // namespace tally::perf
