// CRC32C (Castagnoli's polynomial, as in RFC 3720), by ISA-L. The library is opened at run time:
// programs and libraries that link this load where it is absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace tally {

class Crc32c {
 public:
  // The process's one, or why there is none. Any thread.
  static Result<const Crc32c*> open();

  // Of `bytes`; `before`: the checksum of what stands before them, so that pieces give that of the
  // whole. Never waits or allocates.
  std::uint32_t operator()(std::span<const std::byte> bytes, std::uint32_t before = 0) const;
  // The same, of a piece of something long that comes from DRAM: fetches what lies kAhead further
  // on, since the processor by itself does not fetch soon enough: 38 GB/s instead of 19 on a core
  // of an AMD EPYC (Zen 5); but 15 % slower where caches have the bytes.
  std::uint32_t streamed(std::span<const std::byte> bytes, std::uint32_t before = 0) const;

 private:
  static constexpr std::size_t kAhead = 8192;
  using Function = unsigned int (*)(unsigned char* buffer, int bytes, unsigned int before);

  explicit Crc32c(Function function) : function_(function) {}
  static Result<Crc32c> load();

  Function function_;
};

}  // namespace tally
