// Hands out the answers that a transport has stored, in the order in which they came.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace tally::transport {

// Moves answers from the front of stored (a vector or a deque) to out, at most out.size() of them.
// Returns the number of answers that it moved.
template <typename Answers, typename Answer>
std::size_t take(Answers& stored, std::span<Answer> out) {
  const std::size_t count = std::min(stored.size(), out.size());
  const auto end = stored.begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(stored.begin(), end, out.begin());
  stored.erase(stored.begin(), end);
  return count;
}

}  // namespace tally::transport
