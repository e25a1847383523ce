// CRC-32 of IEEE 802.3, as Ethernet, zlib and RoCE's ICRC have it, computed by ISA-L.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace tally {

class Crc32 {
 public:
  // Returns the process's only instance, or an error that says why ISA-L is not usable. Any thread
  // may call this.
  static Result<const Crc32*> open();

  // Returns the checksum of `bytes`. `before` is the checksum of the bytes that precede them. Never
  // waits and never allocates.
  std::uint32_t operator()(std::span<const std::byte> bytes, std::uint32_t before = 0) const {
    return function_(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  }

 private:
  using Function = std::uint32_t (*)(std::uint32_t before, const unsigned char* bytes,
                                     std::uint64_t count);

  explicit Crc32(Function function) : function_(function) {}
  static Result<Crc32> load();

  Function function_;
};

}  // namespace tally
