#include "base/crc32.h"

#include <isa-l/crc.h>

#include <type_traits>

#include "base/isal.h"

namespace tally {

Result<Crc32> Crc32::load() {
  static_assert(std::is_same_v<Function, decltype(&::crc32_gzip_refl)>);
  const auto function = isal_function("crc32_gzip_refl");
  if (!function) return function.error();
  return Crc32(reinterpret_cast<Function>(*function));
}

Result<const Crc32*> Crc32::open() {
  static const Result<Crc32> loaded = load();
  if (!loaded) return loaded.error();
  return &loaded.value();
}

}  // namespace tally
