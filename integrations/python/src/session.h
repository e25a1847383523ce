// Opens sessions of libtally by typed options.
#pragma once

#include <tally/tally.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tally::python {

struct CommunicatorOptions {
  std::string address;  // empty means libtally's default
  std::string job = "default";
  std::string token;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint32_t connect_timeout_ms = 0;
  std::uint32_t deadline_ms = 0;
  std::optional<bool> checksums;  // no value: the environment decides
  bool machine_groups = false;  // PyTorch's all-reduces on devices may use them; equal at all ranks
};

// Throws Failure. The caller closes the session.
tally_session* open_session(const CommunicatorOptions& options);

}  // namespace tally::python
