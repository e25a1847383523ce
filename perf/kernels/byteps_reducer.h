// The reducer with which Tally is compared: it works as BytePS's server does (written from its
// description, not copied). It adds gradients in the order of arrival. It copies the first gradient
// into the server's buffer, walks over that buffer again for each later one, and rounds f16 at
// every addition.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tally::perf {

void byteps_sum_f32(float* to, const float* from, std::size_t count);
void byteps_sum_f16(std::uint16_t* to, const std::uint16_t* from, std::size_t count);

// One round: adds all arrivals into `to`.
void byteps_reduce_f32(float* to, const float* const* arrivals, std::size_t arrived,
                       std::size_t count);
void byteps_reduce_f16(std::uint16_t* to, const std::uint16_t* const* arrivals, std::size_t arrived,
                       std::size_t count);

}  // namespace tally::perf
