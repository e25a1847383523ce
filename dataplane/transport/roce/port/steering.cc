#include "dataplane/transport/roce/port/steering.h"

#include <rte_byteorder.h>
#include <rte_flow.h>

#include <array>

#include "dataplane/transport/roce/port/pair_numbers.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {
namespace {

constexpr std::size_t kNumberBytes = 3;
// Of the queue pair's number, from the begin of the base transport header.
constexpr std::int32_t kNumberAt = 5;

std::array<std::uint8_t, kNumberBytes> big_endian(std::uint32_t number) {
  return {static_cast<std::uint8_t>(number >> 16), static_cast<std::uint8_t>(number >> 8),
          static_cast<std::uint8_t>(number)};
}

// DPDK 22.11 has no pattern for RoCE's header, so this matches bytes behind the UDP header.
bool add_rule(std::uint16_t port, rte_flow_item_type ip, std::uint32_t queue,
              std::uint32_t queues) {
  const PairNumbers numbers = numbers_of(queue, queues);
  const auto bytes = big_endian(numbers.first);
  const auto bits = big_endian(~(numbers.count - 1));
  rte_flow_item_udp udp{};
  udp.hdr.dst_port = rte_cpu_to_be_16(kUdpPort);
  rte_flow_item_udp udp_mask{};
  udp_mask.hdr.dst_port = UINT16_MAX;
  rte_flow_item_raw raw{};
  raw.relative = 1;
  raw.offset = kNumberAt;
  raw.length = kNumberBytes;
  raw.pattern = bytes.data();
  rte_flow_item_raw raw_mask{};
  raw_mask.relative = raw_mask.search = 1;
  raw_mask.offset = -1;
  raw_mask.limit = raw_mask.length = UINT16_MAX;
  raw_mask.pattern = bits.data();
  const std::array<rte_flow_item, 5> pattern = {{
      {.type = RTE_FLOW_ITEM_TYPE_ETH, .spec = nullptr, .last = nullptr, .mask = nullptr},
      {.type = ip, .spec = nullptr, .last = nullptr, .mask = nullptr},
      {.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .last = nullptr, .mask = &udp_mask},
      {.type = RTE_FLOW_ITEM_TYPE_RAW, .spec = &raw, .last = nullptr, .mask = &raw_mask},
      {.type = RTE_FLOW_ITEM_TYPE_END, .spec = nullptr, .last = nullptr, .mask = nullptr},
  }};
  const rte_flow_action_queue target{.index = static_cast<std::uint16_t>(queue)};
  const std::array<rte_flow_action, 2> actions = {{
      {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &target},
      {.type = RTE_FLOW_ACTION_TYPE_END, .conf = nullptr},
  }};
  rte_flow_attr incoming{};
  incoming.ingress = 1;
  rte_flow_error why{};
  return rte_flow_create(port, &incoming, pattern.data(), actions.data(), &why) != nullptr;
}

}  // namespace

bool steer_by_pair(std::uint16_t port, std::uint32_t queues) {
  for (const auto ip : {RTE_FLOW_ITEM_TYPE_IPV4, RTE_FLOW_ITEM_TYPE_IPV6}) {
    for (std::uint32_t queue = 0; queue < queues; ++queue) {
      if (add_rule(port, ip, queue, queues)) continue;
      rte_flow_error why{};
      static_cast<void>(rte_flow_flush(port, &why));
      return false;
    }
  }
  return true;
}

}  // namespace tally::transport::roce
