#include "tests/support/roce/recording.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <system_error>

namespace tally::testing {
namespace {

struct FileHeader {
  std::uint32_t magic = 0xa1b23c4d;  // times in nanoseconds, in the byte order of this machine
  std::uint16_t major = 2;
  std::uint16_t minor = 4;
  std::uint32_t reserved[2] = {};
  std::uint32_t most_bytes = 1 << 18;  // of a frame
  std::uint32_t link_type = 1;         // Ethernet
};
static_assert(sizeof(FileHeader) == 24);

struct FrameHeader {
  std::uint32_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  std::uint32_t bytes_here = 0;
  std::uint32_t bytes = 0;
};
static_assert(sizeof(FrameHeader) == 16);

void check(bool is_written, const std::string& path) {
  if (is_written) return;
  throw std::system_error(
      errno, std::generic_category(),
      "cannot write the recording " + path + ": set TALLY_TEST_RECORDING to another file");
}

}  // namespace

Recording::Recording(const std::string& path)
    : path_(path), file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  const FileHeader header;
  check(file_ && ::write(file_.get(), &header, sizeof header) == sizeof header, path_);
}

void Recording::add(std::span<const std::byte> frame) {
  const auto bytes = static_cast<std::uint32_t>(frame.size());
  FrameHeader header{.bytes_here = bytes, .bytes = bytes};
  const std::array<iovec, 2> parts = {
      {{&header, sizeof header}, {const_cast<std::byte*>(frame.data()), frame.size()}}};
  const std::lock_guard lock(writing_);
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  header.seconds = static_cast<std::uint32_t>(now.tv_sec);
  header.nanoseconds = static_cast<std::uint32_t>(now.tv_nsec);
  const ssize_t written = ::writev(file_.get(), parts.data(), parts.size());
  check(written == static_cast<ssize_t>(sizeof header + frame.size()), path_);
}

}  // namespace tally::testing
