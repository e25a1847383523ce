// Borrowed bytes, possibly in several pieces. A transport returns them for a pull, and the kernels
// read them.
#pragma once

#include <cstddef>
#include <span>

namespace tally {

// Contiguous borrowed bytes.
struct Span {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// Spans in the order of their bytes.
using View = std::span<const Span>;

}  // namespace tally
