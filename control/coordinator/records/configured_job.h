// A job of the configuration, which a node admits and a coordinator places.
#pragma once

#include <cstdint>
#include <string>

namespace tally::control {

// A job that the configuration names.
struct ConfiguredJob {
  std::string name;
  std::string token;
  std::uint32_t weight = 1;
  std::uint32_t ranks = 0;  // 0 means the number that the first rank gives
};

}  // namespace tally::control
