#include "dataplane/transport/roce/kernel/rtnetlink.h"

#include <fmt/format.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "dataplane/transport/roce/kernel/netlink_answer.h"

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

std::span<const std::byte> Rtnetlink::exchange(Request& request) {
  nlmsghdr& message = request.message();
  const std::uint32_t sequence = ++sequence_;
  message.nlmsg_seq = sequence;
  if (mnl_socket_sendto(socket_.get(), &message, message.nlmsg_len) < 0) return {};
  const auto bytes = request.bytes();
  for (;;) {  // an answer that came after its timeout is skipped
    const ssize_t count = mnl_socket_recvfrom(socket_.get(), bytes.data(), bytes.size());
    if (count < 0 || !mnl_nlmsg_ok(&message, static_cast<int>(count))) return {};
    if (message.nlmsg_seq == sequence) {
      return std::as_bytes(bytes.first(static_cast<std::size_t>(count)));
    }
  }
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
  return read_route(exchange(request), target);
}

HopEntry Rtnetlink::entry(const IpAddress& hop) {
  ndmsg header{};
  header.ndm_family = family_of(hop);
  header.ndm_ifindex = static_cast<int>(interface_);
  Request request(RTM_GETNEIGH, 0, header);
  request.put(NDA_DST, hop);
  return read_entry(exchange(request));
}

void Rtnetlink::use(const IpAddress& hop) {
  ndmsg header{};
  header.ndm_family = family_of(hop);
  header.ndm_ifindex = static_cast<int>(interface_);
  header.ndm_flags = NTF_USE;
  Request request(RTM_NEWNEIGH, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, header);
  request.put(NDA_DST, hop);
  exchange(request);  // the next look at the entry shows what came of it
}

}  // namespace tally::transport::roce
