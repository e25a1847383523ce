#include "dataplane/transport/roce/kernel/netlink_answer.h"

#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>

#include "dataplane/transport/roce/port/address_frames.h"

namespace tally::transport::roce {
namespace {

// A message of the kernel, or its error.
struct Answer {
  const nlmsghdr* message = nullptr;  // null: there is none
  int error = EBADMSG;                // 0 with a message
};

// `type`: of the message that answers the request.
Answer answer_in(std::span<const std::byte> bytes, std::uint16_t type, std::size_t header_bytes) {
  if (bytes.empty()) return {};
  const auto* const message = reinterpret_cast<const nlmsghdr*>(bytes.data());
  if (!mnl_nlmsg_ok(message, static_cast<int>(bytes.size()))) return {};
  const std::size_t payload = mnl_nlmsg_get_payload_len(message);
  if (message->nlmsg_type == NLMSG_ERROR) {
    if (payload < sizeof(nlmsgerr)) return {};
    return {.error = -static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(message))->error};
  }
  if (message->nlmsg_type != type || payload < header_bytes) return {};
  return {.message = message, .error = 0};
}

template <typename Header, typename Call>
void for_each_attribute(const nlmsghdr& message, const Call& call) {
  const auto* one =
      static_cast<const nlattr*>(mnl_nlmsg_get_payload_offset(&message, sizeof(Header)));
  const auto* const end = reinterpret_cast<const char*>(&message) + message.nlmsg_len;
  while (mnl_attr_ok(one, static_cast<int>(end - reinterpret_cast<const char*>(one)))) {
    call(*one);
    one = mnl_attr_next(one);
  }
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

HopState state_of(std::uint16_t bits) {
  if ((bits & (NUD_REACHABLE | NUD_PERMANENT | NUD_NOARP | NUD_DELAY | NUD_PROBE)) != 0) {
    return HopState::kKnown;
  }
  if ((bits & NUD_STALE) != 0) return HopState::kStale;
  if ((bits & NUD_INCOMPLETE) != 0) return HopState::kAsking;
  return (bits & NUD_FAILED) != 0 ? HopState::kFailed : HopState::kNone;
}

// Whether the error says that there is no way: no route, a route of the types unreachable, prohibit
// or blackhole, or no such interface. Other errors say nothing, as that of a lack of memory.
bool is_no_route(int error) {
  return error == ENETUNREACH || error == EHOSTUNREACH || error == EACCES || error == EINVAL ||
         error == ENODEV;
}

}  // namespace

RouteAnswer read_route(std::span<const std::byte> message, const IpAddress& target) {
  const Answer found = answer_in(message, RTM_NEWROUTE, sizeof(rtmsg));
  if (is_no_route(found.error)) return {.is_answered = true};
  if (found.message == nullptr) return {};
  const auto* const route = static_cast<const rtmsg*>(mnl_nlmsg_get_payload(found.message));
  if (route->rtm_type != RTN_UNICAST) return {.is_answered = true};
  RouteAnswer answer{.is_answered = true, .hop = target};
  for_each_attribute<rtmsg>(*found.message, [&](const nlattr& one) {
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

HopEntry read_entry(std::span<const std::byte> message) {
  const Answer found = answer_in(message, RTM_NEWNEIGH, sizeof(ndmsg));
  if (found.error == ENOENT) return {.state = HopState::kNone};
  if (found.message == nullptr) return {.state = HopState::kNotRead};
  const auto* const header = static_cast<const ndmsg*>(mnl_nlmsg_get_payload(found.message));
  HopEntry entry{.state = state_of(header->ndm_state)};
  for_each_attribute<ndmsg>(*found.message, [&](const nlattr& one) {
    if (mnl_attr_get_type(&one) != NDA_LLADDR) return;
    if (mnl_attr_get_payload_len(&one) != entry.mac.size()) return;
    std::memcpy(entry.mac.data(), mnl_attr_get_payload(&one), entry.mac.size());
  });
  if (!address_frames::is_station(entry.mac)) {
    if (entry.state == HopState::kKnown) entry.state = HopState::kUnusable;
    if (entry.state == HopState::kStale) entry.state = HopState::kFailed;
  }
  return entry;
}

}  // namespace tally::transport::roce
