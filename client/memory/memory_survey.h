// Finds out from the kernel whether a caller's memory exists, and what the library may do with it.
#pragma once

#include <cstddef>
#include <string>

namespace tally::client {

struct MemorySurvey {
  std::string why_not_used;  // empty when all of it is mapped and can be read
  bool writable = true;      // whether all of it is writable
  // Why the whole pages of the memory cannot move into a memfd; empty when they can.
  std::string why_not_adopted;
};

// Reads /proc/self/maps. This takes some milliseconds in a process with thousands of mappings.
MemorySurvey survey_memory(const void* data, std::size_t bytes);

}  // namespace tally::client
