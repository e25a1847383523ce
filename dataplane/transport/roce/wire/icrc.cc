#include "dataplane/transport/roce/wire/icrc.h"

#include <array>
#include <cstring>

namespace tally::transport::roce {
namespace {

// CRC-32 of 8 bytes of ones.
constexpr std::uint32_t kAfterOnes = 0x2144df1c;
constexpr std::byte kOnes{0xff};

}  // namespace

Icrc::Icrc(const Crc32& crc, const Packet& packet, std::span<const std::byte> headers) : crc_(crc) {
  std::array<std::byte, kMostHeaders> copy;
  const std::size_t bytes = headers.size() - packet.network;
  std::memcpy(copy.data(), headers.data() + packet.network, bytes);
  std::byte* const ip = copy.data();
  std::byte* const base = copy.data() + packet.base - packet.network;
  if (std::to_integer<unsigned>(ip[0]) >> 4 == 4) {
    ip[1] = ip[8] = ip[10] = ip[11] = kOnes;  // traffic class, time to live, checksum
  } else {
    ip[0] |= std::byte{0x0f};  // traffic class, flow label
    ip[1] = ip[2] = ip[3] = kOnes;
    ip[7] = kOnes;  // hop limit
  }
  base[-2] = base[-1] = kOnes;  // checksum of UDP
  base[4] = kOnes;              // FECN, BECN, reserved
  value_ = crc_(std::span(copy).first(bytes), kAfterOnes);
}

}  // namespace tally::transport::roce
