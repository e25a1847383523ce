// Bytes that somebody else owns, possibly in several pieces: what a transport hands out for a pull
// and what the kernels read.
#pragma once

#include <cstddef>
#include <span>

namespace tally {

// Contiguous bytes, borrowed.
struct Span {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// Spans in order.
using View = std::span<const Span>;

}  // namespace tally
