// The expected result of an operation: the scalar kernel computes it in one piece.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dataplane/partition/collective.h"
#include "summation/reduce.h"

namespace tally::testing {

struct Expected {
  std::vector<std::byte> elements;  // of the whole operation
  std::vector<summation::BlockStats> stats;
};

// `inputs[rank]` is where the rank's contribution begins; ranks that contribute nothing are
// ignored. `expected` is overwritten, and its memory reused.
void compute_expected(const protocol::Shape& shape, std::span<const std::byte* const> inputs,
                      Expected& expected);

// The bytes of `expected` that the rank has in the end; empty when it receives nothing.
std::span<const std::byte> result_of(const protocol::Shape& shape, std::uint16_t rank,
                                     const Expected& expected);

// Bytes of the rank's contribution.
std::uint64_t input_bytes(const protocol::Shape& shape, std::uint16_t rank);

}  // namespace tally::testing
