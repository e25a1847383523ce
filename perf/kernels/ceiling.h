// The read ceiling: reads the same inputs one after the other, as fast as the processor can.
#pragma once

#include <cstddef>

namespace tally::perf {

// `bytes` is a multiple of 256. The result depends on all bytes, so that the compiler omits no
// load.
unsigned read_avx2(const std::byte* const* inputs, std::size_t count, std::size_t bytes);
unsigned read_avx512(const std::byte* const* inputs, std::size_t count, std::size_t bytes);

}  // namespace tally::perf
