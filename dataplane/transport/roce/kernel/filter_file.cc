#include "dataplane/transport/roce/kernel/filter_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "dataplane/transport/roce/kernel/filter_object.h"
#include "dataplane/transport/roce/kernel/filter_settings.h"

namespace tally::transport::roce {

std::vector<unsigned char> filter_for(const IpAddress& address, const MacAddress& mac) {
  FilterSettings settings{.marker = TALLY_FILTER_MARKER};
  std::memcpy(settings.address, address.data(), address.size());
  std::memcpy(settings.mac, mac.data(), mac.size());
  settings.is_ipv4 = is_ipv4(address) ? 1 : 0;
  std::vector<unsigned char> bytes(std::begin(kFilterObject), std::end(kFilterObject));
  const auto place = std::search(bytes.begin(), bytes.end(), std::begin(settings.marker),
                                 std::end(settings.marker));
  assert(bytes.end() - place >= static_cast<std::ptrdiff_t>(sizeof settings));
  std::memcpy(&*place, &settings, sizeof settings);
  return bytes;
}

Result<UniqueFd> make_file(std::span<const unsigned char> bytes) {
  UniqueFd file(::memfd_create("tally-filter", MFD_CLOEXEC));
  if (file &&
      ::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) {
    return file;
  }
  return Error{Status::kUnavailable,
               fmt::format("no file in memory for the XDP program: {}", std::strerror(errno))};
}

std::string path_of(const UniqueFd& file) {
  return fmt::format("/proc/self/fd/{}", file.get());
}

}  // namespace tally::transport::roce
