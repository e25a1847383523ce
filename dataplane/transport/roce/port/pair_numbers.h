// Which numbers of queue pairs belong to which queue of a port: the upper bits of a number say it.
// So one rule of a device's filter is enough for each queue, and a queue that gets a packet of
// another finds the right one without a table.
#pragma once

#include <bit>
#include <cstdint>

namespace tally::transport::roce {

inline constexpr unsigned kPairNumberBits = 24;

// `count` numbers from `first` on.
struct PairNumbers {
  std::uint32_t first = 0;
  std::uint32_t count = 1U << kPairNumberBits;
};

// How many of a number's upper bits say the queue. Precondition: queues > 0.
constexpr unsigned queue_bits(std::uint32_t queues) {
  return static_cast<unsigned>(std::bit_width(queues - 1));
}

constexpr PairNumbers numbers_of(std::uint32_t queue, std::uint32_t queues) {
  const unsigned others = kPairNumberBits - queue_bits(queues);
  return {queue << others, 1U << others};
}

// At least `queues` for a number that belongs to no queue.
constexpr std::uint32_t queue_of(std::uint32_t number, std::uint32_t queues) {
  return number >> (kPairNumberBits - queue_bits(queues));
}

}  // namespace tally::transport::roce
