#include "dataplane/transport/roce/kernel/rtnetlink.h"

#include <fmt/format.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace tally::transport::roce {
namespace {

// The kernel answers before sendto() returns. Only an answer that it had no memory for is missing.
constexpr timeval kAnswerTimeout = {.tv_sec = 1, .tv_usec = 0};

unsigned char family_of(const IpAddress& address) {
  return is_ipv4(address) ? AF_INET : AF_INET6;
}

// The bytes that the kernel uses: 4 or 16.
std::span<const std::uint8_t> bytes_of(const IpAddress& address) {
  const std::span<const std::uint8_t> all(address);
  return is_ipv4(address) ? all.subspan(12) : all;
}

unsigned char bits_of(const IpAddress& address) {
  return static_cast<unsigned char>(8 * bytes_of(address).size());
}

std::optional<IpAddress> address_in(const void* bytes, std::size_t count) {
  IpAddress address{};
  if (count == 4) {
    address[10] = address[11] = 0xff;
    std::memcpy(&address[12], bytes, count);
    return address;
  }
  if (count != address.size()) return std::nullopt;
  std::memcpy(address.data(), bytes, count);
  return address;
}

std::optional<IpAddress> address_in(const nlattr* attribute) {
  return address_in(mnl_attr_get_payload(attribute), mnl_attr_get_payload_len(attribute));
}

// An IPv4 route may have an IPv6 gateway (RFC 8950); its attribute begins with the family.
std::optional<IpAddress> gateway_in(const nlattr* attribute) {
  const std::size_t bytes = mnl_attr_get_payload_len(attribute);
  if (bytes < sizeof(rtvia)) return std::nullopt;
  const auto* const via = static_cast<const rtvia*>(mnl_attr_get_payload(attribute));
  return address_in(via->rtvia_addr, bytes - sizeof(rtvia));
}

bool is_station(const MacAddress& mac) {
  return (mac[0] & 1) == 0 && mac != MacAddress{};
}

HopState state_of(std::uint16_t bits) {
  if ((bits & (NUD_REACHABLE | NUD_PERMANENT | NUD_NOARP | NUD_DELAY | NUD_PROBE)) != 0) {
    return HopState::kKnown;
  }
  if ((bits & NUD_STALE) != 0) return HopState::kStale;
  if ((bits & NUD_INCOMPLETE) != 0) return HopState::kAsking;
  return (bits & NUD_FAILED) != 0 ? HopState::kFailed : HopState::kNone;
}

}  // namespace

// A message to the kernel, and then its answer.
class Rtnetlink::Request {
 public:
  template <typename Header>
  Request(std::uint16_t type, std::uint16_t flags, const Header& header) {
    message_ = mnl_nlmsg_put_header(bytes_.data());
    message_->nlmsg_type = type;
    message_->nlmsg_flags = NLM_F_REQUEST | flags;
    *static_cast<Header*>(mnl_nlmsg_put_extra_header(message_, sizeof(Header))) = header;
  }

  void put(std::uint16_t type, const IpAddress& address) {
    const auto bytes = bytes_of(address);
    mnl_attr_put(message_, type, bytes.size(), bytes.data());
  }
  void put(std::uint16_t type, std::uint32_t value) { mnl_attr_put_u32(message_, type, value); }

  nlmsghdr& message() { return *message_; }
  std::span<char> bytes() { return bytes_; }

  // Of the answer. Null when it is too short.
  template <typename Header>
  const Header* header() const {
    const bool is_whole = mnl_nlmsg_get_payload_len(message_) >= sizeof(Header);
    return is_whole ? static_cast<const Header*>(mnl_nlmsg_get_payload(message_)) : nullptr;
  }
  template <typename Header, typename Call>
  void for_each_attribute(const Call& call) const {
    const auto* one =
        static_cast<const nlattr*>(mnl_nlmsg_get_payload_offset(message_, sizeof(Header)));
    const auto* const end = static_cast<const char*>(mnl_nlmsg_get_payload_tail(message_));
    while (mnl_attr_ok(one, static_cast<int>(end - reinterpret_cast<const char*>(one)))) {
      call(*one);
      one = mnl_attr_next(one);
    }
  }

 private:
  static constexpr std::size_t kMostBytes = 8192;
  alignas(nlmsghdr) std::array<char, kMostBytes> bytes_{};
  nlmsghdr* message_ = nullptr;  // at the begin of bytes_
};

void Rtnetlink::Closer::operator()(mnl_socket* socket) const {
  mnl_socket_close(socket);
}

Result<std::unique_ptr<Rtnetlink>> Rtnetlink::open(unsigned interface, const IpAddress& own) {
  std::unique_ptr<mnl_socket, Closer> socket(mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC));
  timeval timeout = kAnswerTimeout;
  if (!socket || mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) != 0 ||
      ::setsockopt(mnl_socket_get_fd(socket.get()), SOL_SOCKET, SO_RCVTIMEO, &timeout,
                   sizeof timeout) != 0) {
    return Error{
        Status::kUnavailable,
        fmt::format("no routing socket (rtnetlink) of the kernel: {}", std::strerror(errno))};
  }
  return std::unique_ptr<Rtnetlink>(new Rtnetlink(std::move(socket), interface, own));
}

int Rtnetlink::exchange(Request& request) {
  nlmsghdr& message = request.message();
  const std::uint32_t sequence = ++sequence_;
  message.nlmsg_seq = sequence;
  if (mnl_socket_sendto(socket_.get(), &message, message.nlmsg_len) < 0) return errno;
  const auto bytes = request.bytes();
  for (;;) {  // an answer that came after its timeout is skipped
    const ssize_t count = mnl_socket_recvfrom(socket_.get(), bytes.data(), bytes.size());
    if (count < 0) return errno;
    if (!mnl_nlmsg_ok(&message, static_cast<int>(count))) return EBADMSG;
    if (message.nlmsg_seq == sequence) break;
  }
  if (message.nlmsg_type != NLMSG_ERROR) return 0;
  const auto* const error = request.header<nlmsgerr>();
  return error == nullptr ? EBADMSG : -error->error;
}

RouteAnswer Rtnetlink::route_to(const IpAddress& target) {
  if (family_of(target) != family_of(own_)) return {.is_answered = true};
  Request request(RTM_GETROUTE, 0,
                  rtmsg{.rtm_family = family_of(target),
                        .rtm_dst_len = bits_of(target),
                        .rtm_src_len = bits_of(own_)});
  request.put(RTA_DST, target);
  request.put(RTA_SRC, own_);
  request.put(RTA_OIF, interface_);
  const int error = exchange(request);
  if (error == ENETUNREACH || error == EHOSTUNREACH) return {.is_answered = true};
  const auto* const route = error == 0 ? request.header<rtmsg>() : nullptr;
  if (route == nullptr) return {};
  if (route->rtm_type != RTN_UNICAST) return {.is_answered = true};
  RouteAnswer answer{.is_answered = true, .hop = target};
  request.for_each_attribute<rtmsg>([&](const nlattr& one) {
    switch (mnl_attr_get_type(&one)) {
      case RTA_GATEWAY:
        answer.hop = address_in(&one);
        break;
      case RTA_VIA:
        answer.hop = gateway_in(&one);
        break;
      default:
        break;
    }
  });
  return answer;
}

HopEntry Rtnetlink::entry(const IpAddress& hop) {
  ndmsg header{};
  header.ndm_family = family_of(hop);
  header.ndm_ifindex = static_cast<int>(interface_);
  Request request(RTM_GETNEIGH, 0, header);
  request.put(NDA_DST, hop);
  const auto* const found = exchange(request) == 0 ? request.header<ndmsg>() : nullptr;
  if (found == nullptr) return {};
  HopEntry entry{.state = state_of(found->ndm_state)};
  request.for_each_attribute<ndmsg>([&](const nlattr& one) {
    if (mnl_attr_get_type(&one) != NDA_LLADDR) return;
    if (mnl_attr_get_payload_len(&one) != entry.mac.size()) return;
    std::memcpy(entry.mac.data(), mnl_attr_get_payload(&one), entry.mac.size());
  });
  const bool has_mac = entry.state == HopState::kKnown || entry.state == HopState::kStale;
  if (has_mac && !is_station(entry.mac)) entry.state = HopState::kNone;
  return entry;
}

void Rtnetlink::use(const IpAddress& hop) {
  ndmsg header{};
  header.ndm_family = family_of(hop);
  header.ndm_ifindex = static_cast<int>(interface_);
  header.ndm_flags = NTF_USE;
  Request request(RTM_NEWNEIGH, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, header);
  request.put(NDA_DST, hop);
  static_cast<void>(exchange(request));  // the next look at the entry shows what came of it
}

}  // namespace tally::transport::roce
