// The operations of packets of reliable connections (RC), and the congestion notification packet.
// Source: InfiniBand Architecture Specification 1.4, volume 1, table 38; annex A17 (RoCEv2).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tally::transport::roce {

enum class Opcode : std::uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImmediate = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImmediate = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImmediate = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyImmediate = 0x0b,
  kReadRequest = 0x0c,
  kReadFirst = 0x0d,  // responses to a READ request
  kReadMiddle = 0x0e,
  kReadLast = 0x0f,
  kReadOnly = 0x10,
  kAcknowledge = 0x11,
  kCongestion = 0x81,
};

enum class Kind : std::uint8_t { kSend, kWrite, kReadRequest, kReadResponse, kAcknowledge, kOther };

// What an opcode says about its packet.
struct OpcodeFacts {
  bool known = false;
  Kind kind = Kind::kOther;
  bool starts = false;  // the first or only packet of its message
  bool ends = false;    // the last or only packet of its message
  bool has_reth = false;
  bool has_aeth = false;
  bool has_immediate = false;
};

constexpr OpcodeFacts describe(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSendFirst:
      return {.known = true, .kind = Kind::kSend, .starts = true};
    case Opcode::kSendMiddle:
      return {.known = true, .kind = Kind::kSend};
    case Opcode::kSendLast:
      return {.known = true, .kind = Kind::kSend, .ends = true};
    case Opcode::kSendLastImmediate:
      return {.known = true, .kind = Kind::kSend, .ends = true, .has_immediate = true};
    case Opcode::kSendOnly:
      return {.known = true, .kind = Kind::kSend, .starts = true, .ends = true};
    case Opcode::kSendOnlyImmediate:
      return {
          .known = true, .kind = Kind::kSend, .starts = true, .ends = true, .has_immediate = true};
    case Opcode::kWriteFirst:
      return {.known = true, .kind = Kind::kWrite, .starts = true, .has_reth = true};
    case Opcode::kWriteMiddle:
      return {.known = true, .kind = Kind::kWrite};
    case Opcode::kWriteLast:
      return {.known = true, .kind = Kind::kWrite, .ends = true};
    case Opcode::kWriteLastImmediate:
      return {.known = true, .kind = Kind::kWrite, .ends = true, .has_immediate = true};
    case Opcode::kWriteOnly:
      return {.known = true, .kind = Kind::kWrite, .starts = true, .ends = true, .has_reth = true};
    case Opcode::kWriteOnlyImmediate:
      return {.known = true,
              .kind = Kind::kWrite,
              .starts = true,
              .ends = true,
              .has_reth = true,
              .has_immediate = true};
    case Opcode::kReadRequest:
      return {.known = true,
              .kind = Kind::kReadRequest,
              .starts = true,
              .ends = true,
              .has_reth = true};
    case Opcode::kReadFirst:
      return {.known = true, .kind = Kind::kReadResponse, .starts = true, .has_aeth = true};
    case Opcode::kReadMiddle:
      return {.known = true, .kind = Kind::kReadResponse};
    case Opcode::kReadLast:
      return {.known = true, .kind = Kind::kReadResponse, .ends = true, .has_aeth = true};
    case Opcode::kReadOnly:
      return {.known = true,
              .kind = Kind::kReadResponse,
              .starts = true,
              .ends = true,
              .has_aeth = true};
    case Opcode::kAcknowledge:
      return {.known = true,
              .kind = Kind::kAcknowledge,
              .starts = true,
              .ends = true,
              .has_aeth = true};
    case Opcode::kCongestion:
      return {.known = true, .starts = true, .ends = true};
  }
  return {};
}

// describe() for every byte, because each packet asks several times.
inline constexpr auto kFactsOfOpcodes = [] {
  std::array<OpcodeFacts, 256> all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = describe(static_cast<Opcode>(i));
  return all;
}();

constexpr const OpcodeFacts& facts_of(Opcode opcode) {
  return kFactsOfOpcodes[static_cast<std::uint8_t>(opcode)];
}

}  // namespace tally::transport::roce
