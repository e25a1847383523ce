// What travels between a client's endpoint and a shard's besides the bytes of regions: a notice or
// a completion behind an envelope. An endpoint can be reached by anybody; its session's secret is
// known to the two ends alone.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/ring.h"

namespace tally::transport::fabric {

struct Envelope {
  std::uint64_t secret = 0;
  std::uint32_t shard = 0;
  std::uint32_t reserved = 0;
};
inline constexpr std::size_t kMessageBytes = sizeof(Envelope) + sizeof(RingSlot);
using MessageBytes = std::array<std::byte, kMessageBytes>;

struct Opened {
  Envelope envelope;
  RingSlot content;
};

inline MessageBytes seal(const Envelope& envelope, const RingSlot& content) {
  MessageBytes bytes;
  std::memcpy(bytes.data(), &envelope, sizeof envelope);
  std::memcpy(bytes.data() + sizeof envelope, content.bytes, sizeof content.bytes);
  return bytes;
}

// Nothing where it is not as long as a message.
inline std::optional<Opened> open_message(std::span<const std::byte> bytes) {
  if (bytes.size() != kMessageBytes) return std::nullopt;
  Opened opened;
  std::memcpy(&opened.envelope, bytes.data(), sizeof opened.envelope);
  std::memcpy(opened.content.bytes, bytes.data() + sizeof(Envelope), sizeof opened.content.bytes);
  return opened;
}

}  // namespace tally::transport::fabric
