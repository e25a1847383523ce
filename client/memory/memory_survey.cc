#include "client/memory/memory_survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string_view>

#include "dataplane/transport/shm/segment.h"

namespace tally::client {
namespace {

using transport::shm::kPage;

// A line of /proc/self/maps.
struct Mapped {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool readable = false;
  bool writable = false;
  bool is_private = false;
  bool of_file = false;
  std::string_view name;
};

bool parse(const std::string& line, Mapped& mapped) {
  char rights[5] = {};
  unsigned long inode = 0;
  int name = 0;
  if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %lu %n", &mapped.begin,
                  &mapped.end, rights, &inode, &name) < 4) {
    return false;
  }
  mapped.readable = rights[0] == 'r';
  mapped.writable = rights[1] == 'w';
  mapped.is_private = rights[3] == 'p';
  mapped.of_file = inode != 0;
  mapped.name = name > 0 ? std::string_view(line).substr(static_cast<std::size_t>(name)) : "";
  return true;
}

std::string why_not_adopted(const Mapped& mapped) {
  if (!mapped.writable) return "it is read-only";
  if (!mapped.is_private) return "it is shared already (register it as TALLY_MEMORY_SHARED)";
  if (mapped.of_file) return fmt::format("it maps the file {}", mapped.name);
  if (mapped.name.starts_with("[stack")) return "it is on the stack";
  return "";
}

}  // namespace

MemorySurvey survey_memory(const void* data, std::size_t bytes) {
  MemorySurvey survey;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = begin + bytes;
  if (end < begin) {
    survey.why_not_used = "it ends beyond the last address";
    return survey;
  }
  const std::uintptr_t first_page = (begin + kPage - 1) / kPage * kPage;
  const std::uintptr_t last_page = end / kPage * kPage;
  if (first_page >= last_page) survey.why_not_adopted = "it holds no whole page";
  std::ifstream maps("/proc/self/maps");
  if (!maps) {
    survey.why_not_adopted = "/proc/self/maps cannot be read";
    return survey;
  }
  std::uintptr_t covered = begin;
  Mapped mapped;
  for (std::string line; covered < end && std::getline(maps, line);) {
    if (!parse(line, mapped) || mapped.end <= covered) continue;
    if (mapped.begin > covered) break;
    if (!mapped.readable) {
      survey.why_not_used = fmt::format("it cannot be read at {:#x}", covered);
      return survey;
    }
    survey.writable &= mapped.writable;
    const bool whole_pages = mapped.end > first_page && covered < last_page;
    if (whole_pages && survey.why_not_adopted.empty()) {
      survey.why_not_adopted = why_not_adopted(mapped);
    }
    covered = mapped.end;
  }
  if (covered < end) survey.why_not_used = fmt::format("it is not mapped at {:#x}", covered);
  return survey;
}

}  // namespace tally::client
