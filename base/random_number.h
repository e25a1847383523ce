// Random numbers that an attacker must not guess: secrets, keys, table indices.
#pragma once

#include <sys/random.h>

#include <cstdint>

namespace tally {

// Asks the kernel by a system call.
inline std::uint64_t random_number() {
  std::uint64_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != sizeof number) continue;
  return number;
}

}  // namespace tally
