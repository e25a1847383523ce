// What Tally is compared with: a reducer in the manner of BytePS's server (written from its
// description, not copied). Gradients are added in the order in which they arrive: the first is
// copied into the server's buffer, each later one is another walk over that buffer, and f16 is
// rounded at every addition.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tally::perf {

void byteps_sum_f32(float* to, const float* from, std::size_t count);
void byteps_sum_f16(std::uint16_t* to, const std::uint16_t* from, std::size_t count);

// One round: all arrivals into `to`.
void byteps_reduce_f32(float* to, const float* const* arrivals, std::size_t arrived,
                       std::size_t count);
void byteps_reduce_f16(std::uint16_t* to, const std::uint16_t* const* arrivals, std::size_t arrived,
                       std::size_t count);

}  // namespace tally::perf
