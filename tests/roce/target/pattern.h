// The bytes that perftest's programs send, and where they put them. A program fills its buffers
// with rand() of the C library, after srand(time(NULL)), so an end that knows the time within
// seconds can check all bytes. Pure.
//
// Source: perftest 4.5-0.17, src/perftest_resources.c and perftest_resources.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <vector>

namespace tally::transport::roce::target {

// The first so many bytes of a program's buffers.
std::vector<std::byte> perftest_bytes(std::uint32_t seed, std::size_t count);

// Where the messages of a run lie in the buffers of both ends: short ones go through a part of the
// buffer again and again, others begin at 0.
struct Layout {
  std::size_t size = 0;         // of a message
  std::size_t count = 0;        // of messages
  std::size_t cycle = 4096;     // the part of the buffer
  std::size_t cache_line = 64;  // short messages begin at a multiple of it

  bool is_short() const { return size <= cycle / 2; }
  std::size_t step() const {
    const std::size_t lines = size <= cache_line ? 1 : (size + cache_line - 1) / cache_line;
    return lines * cache_line;
  }
  // Of message `index`.
  std::size_t offset(std::size_t index) const {
    return is_short() ? index % (cycle / step()) * step() : 0;
  }
  // Messages that lie beside each other.
  std::size_t places() const;
  // Each queue pair has one of this size for what it sends; behind them are those for what arrives.
  std::size_t buffer_bytes() const { return size < cycle ? cycle : size; }
};

struct Checked {
  std::uint64_t bytes = 0;
  std::uint64_t wrong = 0;
};

// Compares the messages in `memory` with those that begin at `at` in the buffers of a program that
// filled them between these times. When no time fits, all bytes are wrong.
Checked check(std::span<const std::byte> memory, const Layout& layout, std::size_t at,
              std::time_t first, std::time_t last);

}  // namespace tally::transport::roce::target
