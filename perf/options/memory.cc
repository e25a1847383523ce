#include "perf/options/memory.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

namespace tally::perf {
namespace {

// Bytes of memory that are available; 0 when the machine does not report it.
std::uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kilobytes = 0;
  std::string unit;
  while (file >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, unit);
  }
  return 0;
}

}  // namespace

Outcome check_memory(const Options& options, const std::vector<Row>& rows, std::uint64_t workers) {
  const std::uint64_t arenas = (options.in_place ? 1 : 2) * workers;
  const std::uint64_t copies = options.ceiling ? 2 * arenas : arenas;
  const std::uint64_t available = available_memory();
  const std::uint64_t each = arena_bytes(options, rows);
  if (available == 0 || copies == 0 || each <= available / copies) return Unit{};
  return Error{Status::kNoMemory,
               fmt::format("needs {} buffers of {} MiB and {} MiB are available: fewer workers, "
                           "--in-place, or less to measure",
                           copies, each >> 20, available >> 20)};
}

}  // namespace tally::perf
