// What an acknowledgement says in the syndrome of its AETH. Source: InfiniBand Architecture
// Specification 1.4, volume 1, section 9.7.5.1.2 (syndromes), 9.7.7.2 (credits), 9.7.5.2.8 (RNR
// timers).
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace tally::transport::roce {

enum class Answer : std::uint8_t { kAcknowledged = 0, kNotReady = 1, kReserved = 2, kRefused = 3 };

// Why a responder refuses.
enum class Refusal : std::uint8_t {
  kSequence = 0,        // a packet is missing; the acknowledgement has its PSN
  kInvalidRequest = 1,  // it does not fit the connection
  kAccess = 2,          // the memory is not open to the requester
  kOperation = 3,       // the responder cannot
};

constexpr Answer answer_of(std::uint8_t syndrome) {
  return static_cast<Answer>(syndrome >> 5 & 3);
}
constexpr std::uint8_t detail_of(std::uint8_t syndrome) {
  return syndrome & 0x1f;
}
constexpr std::uint8_t refused_with(Refusal refusal) {
  return static_cast<std::uint8_t>(3 << 5 | static_cast<std::uint8_t>(refusal));
}
constexpr std::uint8_t not_ready_for(std::uint8_t timer) {
  return static_cast<std::uint8_t>(1 << 5 | timer);
}

// The number of messages that the requester may send beyond those that the acknowledgement counts.
inline constexpr std::uint8_t kAnyCredits = 31;
inline constexpr std::array<std::uint32_t, 31> kCredits = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

// The code for at most this number.
constexpr std::uint8_t credit_code(std::uint32_t messages) {
  std::uint8_t code = 30;
  while (kCredits[code] > messages) --code;
  return code;
}

// How long the requester waits before it sends again.
inline constexpr std::array<std::uint32_t, 32> kNotReadyMicros = {
    655'360, 10,     20,     30,     40,     60,      80,      120,     160,     240,    320,
    480,     640,    960,    1'280,  1'920,  2'560,   3'840,   5'120,   7'680,   10'240, 15'360,
    20'480,  30'720, 40'960, 61'440, 81'920, 122'880, 163'840, 245'760, 327'680, 491'520};

constexpr Nanos wait_of(std::uint8_t timer) {
  return Nanos{kNotReadyMicros[timer & 0x1f]} * 1000;
}

}  // namespace tally::transport::roce
