// The invariant CRC at the end of RoCEv2 packets: CRC-32 of IEEE 802.3 over what routers leave as
// it is. The fields that routers change count as ones. It covers 8 bytes of ones (in place of
// InfiniBand's local route header), the IP and UDP headers, and the packet from its BTH on.
//
// Sources: InfiniBand Architecture Specification 1.4, volume 1, section 7.8.1; annex A17.3.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/crc32.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {

class Icrc {
 public:
  // headers: the frame up to the payload. packet: as read_packet() or write_headers() left it. crc
  // is borrowed.
  Icrc(const Crc32& crc, const Packet& packet, std::span<const std::byte> headers);

  // Adds the next bytes: payload and padding, in pieces of any size.
  void add(std::span<const std::byte> bytes) { value_ = crc_(bytes, value_); }
  // To be stored in little-endian order.
  std::uint32_t value() const { return value_; }

 private:
  const Crc32& crc_;
  std::uint32_t value_ = 0;
};

}  // namespace tally::transport::roce
