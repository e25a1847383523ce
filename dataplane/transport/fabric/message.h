// The messages between a client's endpoint and a shard's endpoint. A message is an Envelope, then a
// notice or a completion, then the bytes of a small operation if there are any. These are a rank's
// contribution behind a notice, or results behind a completion: a Store for each result, followed
// by its bytes. Every machine of the network can reach an endpoint; only the two ends know the
// session's secret.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/containers/ring.h"
#include "dataplane/wire/notice.h"

namespace tally::transport::fabric {

struct Envelope {
  std::uint64_t secret = 0;
  std::uint32_t shard = 0;
  std::uint32_t reserved = 0;
};
// The target of a result, named as an RMA write would name it: the key of the receiver's memory,
// and the address in it.
struct Store {
  std::uint64_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

inline constexpr std::size_t kMessageBytes = sizeof(Envelope) + sizeof(RingEntry);
// Most bytes of a contribution that goes behind its notice, and of an operation whose results go
// behind its completion.
inline constexpr std::size_t kEagerBytes = wire::kMostEagerBytes;
inline constexpr std::size_t kLongestMessage = kMessageBytes + kEagerBytes + 8 * sizeof(Store);
using MessageBytes = std::array<std::byte, kMessageBytes>;

struct Opened {
  Envelope envelope;
  RingEntry content;
  std::span<const std::byte> behind;  // borrowed from the bytes that were opened
};

// Writes the envelope and the content to the front of bytes. Precondition: bytes has room for
// kMessageBytes.
inline void seal_into(std::span<std::byte> bytes, const Envelope& envelope,
                      const RingEntry& content) {
  std::memcpy(bytes.data(), &envelope, sizeof envelope);
  std::memcpy(bytes.data() + sizeof envelope, content.bytes, sizeof content.bytes);
}

inline MessageBytes seal(const Envelope& envelope, const RingEntry& content) {
  MessageBytes bytes;
  seal_into(bytes, envelope, content);
  return bytes;
}

// Parses a message. Nothing when the length is not that of a message. Does not check the secret.
inline std::optional<Opened> open_message(std::span<const std::byte> bytes) {
  if (bytes.size() < kMessageBytes || bytes.size() > kLongestMessage) return std::nullopt;
  Opened opened;
  std::memcpy(&opened.envelope, bytes.data(), sizeof opened.envelope);
  std::memcpy(opened.content.bytes, bytes.data() + sizeof(Envelope), sizeof opened.content.bytes);
  opened.behind = bytes.subspan(kMessageBytes);
  return opened;
}

struct SmallResult {
  Store store;
  std::span<const std::byte> bytes;  // borrowed from the message
};
// Takes the next result from the front of the bytes behind a completion. Nothing when there is no
// result, or only a part of one.
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
