#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <type_traits>

#include "base/isal.h"

namespace tally {
namespace {

constexpr std::size_t kMostAtOnce = 1 << 30;  // ISA-L's lengths are ints

}  // namespace

Result<Crc32c> Crc32c::load() {
  static_assert(std::is_same_v<Function, decltype(&::crc32_iscsi)>);
  const auto function = isal_function("crc32_iscsi");
  if (!function) return function.error();
  return Crc32c(reinterpret_cast<Function>(*function));
}

Result<const Crc32c*> Crc32c::open() {
  static const Result<Crc32c> loaded = load();
  if (!loaded) return loaded.error();
  return &loaded.value();
}

// ISA-L leaves the inversions before and after to its caller. It only reads through its pointer.
std::uint32_t Crc32c::operator()(std::span<const std::byte> bytes, std::uint32_t before) const {
  std::uint32_t state = ~before;
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), kMostAtOnce);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    state = function_(data, static_cast<int>(count), state);
    bytes = bytes.subspan(count);
  }
  return ~state;
}

std::uint32_t Crc32c::streamed(std::span<const std::byte> bytes, std::uint32_t before) const {
  constexpr std::size_t kLine = 64;
  const auto ahead = reinterpret_cast<std::uintptr_t>(bytes.data()) + kAhead;
  for (std::size_t at = 0; at < bytes.size(); at += kLine) {
    // The address may be outside of the process's memory; a prefetch does not fault.
    __builtin_prefetch(reinterpret_cast<const void*>(ahead + at));
  }
  return (*this)(bytes, before);
}

}  // namespace tally
