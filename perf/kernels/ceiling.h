// The read ceiling: the same inputs read one after the other, as fast as the processor can.
#pragma once

#include <cstddef>

namespace tally::perf {

// bytes is a multiple of 256. Each returns something of all bytes, so that no load is left out.
unsigned read_avx2(const std::byte* const* inputs, std::size_t count, std::size_t bytes);
unsigned read_avx512(const std::byte* const* inputs, std::size_t count, std::size_t bytes);

}  // namespace tally::perf
