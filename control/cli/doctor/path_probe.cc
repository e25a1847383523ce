#include "control/cli/doctor/path_probe.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/system/fd.h"
#include "net/tcp.h"

namespace tally::control::doctor {
namespace {

// The first port of traceroute. Hosts have no socket there, and firewalls know it.
constexpr int kPort = 33434;
constexpr int kTimeoutMs = 250;
constexpr int kTries = 2;       // a single lost packet is no evidence
constexpr int kMaxRouters = 8;  // each router may have a smaller limit than the one before
constexpr std::uint32_t kUdpHeader = 8;
constexpr std::uint32_t kIpv4Header = 20;
constexpr std::uint32_t kIpv6Header = 40;
constexpr std::uint32_t kMaxPacket = 65535;
// Usual limits of switches and tunnels, the largest first. Every link must carry the last one.
constexpr std::array<std::uint32_t, 5> kUsualMtus = {9000, 4200, 1500, 1400, 1280};

Error failed(const char* what) {
  return {Status::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno))};
}

Result<Answer> probe_again(Prober& prober, std::uint32_t bytes) {
  Result<Answer> answer = Answer::kNothing;
  for (int i = 0; i < kTries && answer.ok() && *answer == Answer::kNothing; ++i) {
    answer = prober.probe(bytes);
  }
  return answer;
}

class DatagramProber : public Prober {
 public:
  static Result<DatagramProber> open(const net::SocketAddress& to) {
    const int family = to.socket.ss_family;
    UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return failed("socket");
    const bool is_v6 = family == AF_INET6;
    const int never_cut = is_v6 ? IPV6_PMTUDISC_DO : IP_PMTUDISC_DO;
    if (::setsockopt(socket.get(), is_v6 ? IPPROTO_IPV6 : IPPROTO_IP,
                     is_v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &never_cut,
                     sizeof never_cut) != 0) {
      return failed("setting MTU_DISCOVER");
    }
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to.socket), to.bytes) != 0) {
      return failed("connect");
    }
    return DatagramProber(std::move(socket), is_v6);
  }

  Result<std::uint32_t> mtu() override {
    int value = 0;
    socklen_t bytes = sizeof value;
    if (::getsockopt(socket_.get(), is_v6_ ? IPPROTO_IPV6 : IPPROTO_IP, is_v6_ ? IPV6_MTU : IP_MTU,
                     &value, &bytes) != 0) {
      return failed("reading IP_MTU");
    }
    return static_cast<std::uint32_t>(value);
  }

  Result<Answer> probe(std::uint32_t packet_bytes) override {
    static_cast<void>(pending_error());  // a late answer belongs to no probe
    const std::uint32_t headers = kUdpHeader + (is_v6_ ? kIpv6Header : kIpv4Header);
    const std::string payload(packet_bytes > headers ? packet_bytes - headers : 1, '\0');
    if (::send(socket_.get(), payload.data(), payload.size(), MSG_NOSIGNAL) < 0) {
      return meaning_of(errno);
    }
    pollfd entry{socket_.get(), POLLIN, 0};
    if (::poll(&entry, 1, kTimeoutMs) <= 0) return Answer::kNothing;
    const int error = pending_error();
    if (error != 0) return meaning_of(error);
    char reply[1];  // a socket listens there and answers
    const ssize_t got = ::recv(socket_.get(), reply, sizeof reply, MSG_DONTWAIT);
    return got >= 0 ? Answer::kArrived : Answer::kNothing;
  }

 private:
  DatagramProber(UniqueFd socket, bool is_v6) : socket_(std::move(socket)), is_v6_(is_v6) {}

  static Result<Answer> meaning_of(int error) {
    if (error == ECONNREFUSED) return Answer::kArrived;
    if (error == EMSGSIZE) return Answer::kTooBig;
    if (error == EAGAIN || error == EINTR || error == ENOBUFS) return Answer::kNothing;
    errno = error;
    return failed("sending a datagram");
  }

  int pending_error() const {
    int error = 0;
    socklen_t bytes = sizeof error;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    return error;
  }

  UniqueFd socket_;
  bool is_v6_;
};

}  // namespace

Result<PathMtu> measure_path(Prober& prober, std::string address) {
  PathMtu path{std::move(address), 0, 0, {}};
  Answer answer = Answer::kTooBig;
  for (int i = 0; i < kMaxRouters && answer == Answer::kTooBig; ++i) {
    const auto mtu = prober.mtu();
    if (!mtu) return mtu.error();
    path.mtu = std::min(*mtu, kMaxPacket);
    const auto probed = probe_again(prober, path.mtu);
    if (!probed) return probed.error();
    answer = *probed;
  }
  if (answer == Answer::kArrived) path.arrived = path.mtu;
  for (const std::uint32_t bytes : kUsualMtus) {
    if (path.arrived > 0 || bytes >= path.mtu) continue;
    const auto probed = probe_again(prober, bytes);
    if (!probed) return probed.error();
    if (*probed == Answer::kArrived) path.arrived = bytes;
  }
  return path;
}

Result<std::vector<PathMtu>> measure_paths(const std::string& host) {
  const auto addresses = net::resolve_tcp(fmt::format("{}:{}", net::bracketed(host), kPort),
                                          /*to_listen=*/false);
  if (!addresses) return addresses.error();
  std::vector<PathMtu> paths;
  for (const int family : {AF_INET, AF_INET6}) {
    const auto to = std::find_if(
        addresses->begin(), addresses->end(),
        [family](const net::SocketAddress& one) { return one.socket.ss_family == family; });
    if (to == addresses->end()) continue;
    const std::string name = net::host_of(to->socket);
    auto prober = DatagramProber::open(*to);
    const auto path = prober ? measure_path(*prober, name) : Result<PathMtu>(prober.error());
    paths.push_back(path ? *path : PathMtu{name, 0, 0, path.error().message});
  }
  return paths;
}

}  // namespace tally::control::doctor
