// What one connection has done, and the functions that speak the protocols of the programs.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "tests/roce/target/channel.h"
#include "tests/roce/target/pattern.h"
#include "tests/roce/target/target.h"

namespace tally::transport::roce::target {

struct Summary {
  std::uint64_t size = 0;      // of a message; of perftest's -a: of the last ones
  std::uint64_t messages = 0;  // of all queue pairs
  std::uint32_t mtu = 0;
  Checked checked;
};

// Plays one connection. size: of the messages that this end sends or asks for; a server learns it
// from the other end. Precondition: the target has new queue pairs.
Result<Summary> run_pingpong(Target& target, Channel& channel, std::uint64_t size);
Result<Summary> run_perftest(Target& target, Channel& channel, std::uint64_t size);

}  // namespace tally::transport::roce::target
