#include "tests/fault/raw_session.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <stdexcept>

#include "net/address.h"
#include "net/rpc/partition_json.h"

namespace tally::testing {
namespace {

using nlohmann::json;
using rpc::RpcChannel;
namespace shm = transport::shm;

constexpr Nanos kTimeout = 10 * kSecond;

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

}  // namespace

UniqueFd connect_raw(const std::string& address) {
  const auto parsed = must(net::parse_address(address));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&parsed.socket),
                sizeof parsed.socket) != 0) {
    throw std::runtime_error("the node's backlog is full");
  }
  return socket;
}

RpcChannel must_connect(const std::string& address) {
  return must(RpcChannel::connect(address, monotonic_now() + kTimeout));
}

RawSession::RawSession(const RawOptions& options) : channel(must_connect(options.address)) {
  const json hello = {{"version", 1},
                      {"job", options.job},
                      {"token", ""},
                      {"rank", options.rank},
                      {"ranks", options.ranks}};
  const json opened = must(channel.call("session.open", hello, {}, monotonic_now() + kTimeout));
  epoch = opened.at("epoch");
  plan_ = rpc::find_partition(opened).value();
  const shm::SegmentGeometry geometry{plan_.trees, opened.at("credit").get<std::uint32_t>()};
  memory = must(shm::make_shared("raw-segment", geometry.bytes()));
  segment = shm::Segment(memory.mapping.data(), geometry);
  std::vector<int> fds{memory.fd.get()};
  for (std::uint32_t i = 0; i < geometry.shards; ++i) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
      throw std::runtime_error("socketpair");
    }
    doorbells.emplace_back(pair[0]);
    node_ends.emplace_back(pair[1]);
    fds.push_back(pair[1]);
    notices_.emplace_back(segment.block(i).notices, segment.notice_entries(i));
    completions_.emplace_back(segment.block(i).completions, segment.completion_entries(i));
  }
  must(channel.call("session.attach", json::object(), fds, monotonic_now() + kTimeout));
  data = must(shm::make_shared("raw-region", kRegionBytes));
  region = must(add_region(data.fd.get(), kRegionBytes));
}

Result<std::uint32_t> RawSession::add_region(int memfd, std::uint64_t bytes) {
  const int fds[] = {memfd};
  auto reply = channel.call("region.register", {{"bytes", bytes}}, fds, monotonic_now() + kTimeout);
  if (!reply) return reply.error();
  return reply->at("region").get<std::uint32_t>();
}

wire::Notice RawSession::notice(std::uint32_t tag, std::uint32_t round, std::uint64_t count) const {
  wire::Notice notice;
  notice.tag = tag;
  notice.round = round;
  notice.count = count;
  notice.epoch = epoch;
  notice.in_region = notice.out_region = region;
  return notice;
}

bool RawSession::send(const wire::Notice& notice) {
  const protocol::Operand operand{notice.group, notice.tag, notice.type, notice.count};
  return send(protocol::cut(plan_, operand, 0).tree, wire::encode(notice));
}

bool RawSession::send(std::uint32_t shard, const RingEntry& bytes) {
  if (!notices_[shard].push(bytes)) return false;
  if (shm::ring_needed(segment.block(shard).shard_sleeps)) ring(shard);
  return true;
}

void RawSession::ring(std::uint32_t shard) const {
  const char byte = 0;
  static_cast<void>(::send(doorbells[shard].get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
}

std::size_t RawSession::drain() {
  std::array<RingEntry, 64> entries;
  std::size_t taken = 0;
  for (RingConsumer& ring : completions_) taken += ring.pop(entries);
  return taken;
}

bool RawSession::over() const {
  pollfd connection{channel.fd(), POLLIN | POLLRDHUP, 0};
  return channel.fd() < 0 || (::poll(&connection, 1, 0) > 0 &&
                              (connection.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0);
}

}  // namespace tally::testing
