// A fuzzer's bytes, read one value at a time. Values are 0 when the bytes are used up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

namespace tally::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t bytes) : data_(data), left_(bytes) {}

  bool empty() const { return left_ == 0; }

  template <typename Number>
  Number take() {
    static_assert(std::is_unsigned_v<Number>);
    Number number = 0;
    const std::size_t bytes = left_ < sizeof number ? left_ : sizeof number;
    std::memcpy(&number, data_, bytes);
    data_ += bytes;
    left_ -= bytes;
    return number;
  }

  // A value in 0 .. choices - 1.
  std::uint32_t pick(std::uint32_t choices) { return take<std::uint8_t>() % choices; }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

// Checks a condition in every build, and aborts when it is false. The fuzzer keeps the input that
// broke it.
inline void require(bool holds, const char* rule) {
  if (holds) return;
  fmt::print(stderr, "broken: {}\n", rule);
  std::abort();
}

}  // namespace tally::fuzz
