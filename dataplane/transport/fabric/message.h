// What travels between a client's endpoint and a shard's besides the bytes of regions: a notice or
// a completion behind an envelope, and behind that what belongs to a small operation: a rank's
// contribution, or results and where they go (a Store each, with its bytes after it). An endpoint
// can be reached by anybody; its session's secret is known to the two ends alone.
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
// Bytes for the memory that the receiver knows by this key: as an RMA write would name it.
struct Store {
  std::uint64_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

inline constexpr std::size_t kMessageBytes = sizeof(Envelope) + sizeof(RingSlot);
// Of a contribution, and of an operation whose results go with its completion.
inline constexpr std::size_t kEagerBytes = 8192;
inline constexpr std::size_t kLongestMessage = kMessageBytes + kEagerBytes + 8 * sizeof(Store);
using MessageBytes = std::array<std::byte, kMessageBytes>;

struct Opened {
  Envelope envelope;
  RingSlot content;
  std::span<const std::byte> behind;  // in what was opened
};

// Precondition: `bytes` has room for a message.
inline void seal_into(std::span<std::byte> bytes, const Envelope& envelope,
                      const RingSlot& content) {
  std::memcpy(bytes.data(), &envelope, sizeof envelope);
  std::memcpy(bytes.data() + sizeof envelope, content.bytes, sizeof content.bytes);
}

inline MessageBytes seal(const Envelope& envelope, const RingSlot& content) {
  MessageBytes bytes;
  seal_into(bytes, envelope, content);
  return bytes;
}

// Nothing where it is not as long as a message.
inline std::optional<Opened> open_message(std::span<const std::byte> bytes) {
  if (bytes.size() < kMessageBytes || bytes.size() > kLongestMessage) return std::nullopt;
  Opened opened;
  std::memcpy(&opened.envelope, bytes.data(), sizeof opened.envelope);
  std::memcpy(opened.content.bytes, bytes.data() + sizeof(Envelope), sizeof opened.content.bytes);
  opened.behind = bytes.subspan(kMessageBytes);
  return opened;
}

// The next result of what is behind a completion, which it is taken from; nothing where there is
// none, or only a part of one.
struct SmallResult {
  Store store;
  std::span<const std::byte> bytes;
};
inline std::optional<SmallResult> next_result(std::span<const std::byte>& behind) {
  SmallResult result;
  if (behind.size() < sizeof result.store) return std::nullopt;
  std::memcpy(&result.store, behind.data(), sizeof result.store);
  behind = behind.subspan(sizeof result.store);
  if (result.store.bytes > behind.size()) return std::nullopt;
  result.bytes = behind.first(result.store.bytes);
  behind = behind.subspan(result.store.bytes);
  return result;
}

}  // namespace tally::transport::fabric
