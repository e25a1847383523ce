#include "tests/roce/target/pattern.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace tally::transport::roce::target {

// rand() is random() in glibc, with a state of this size.
std::vector<std::byte> perftest_bytes(std::uint32_t seed, std::size_t count) {
  std::array<char, 128> state{};
  random_data data{};
  ::initstate_r(seed, state.data(), state.size(), &data);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) {
    std::int32_t number = 0;
    ::random_r(&data, &number);
    byte = static_cast<std::byte>(number);
  }
  return bytes;
}

std::size_t Layout::places() const {
  return is_short() ? std::min(count, cycle / step()) : std::min<std::size_t>(count, 1);
}

Checked check(std::span<const std::byte> memory, const Layout& layout, std::size_t at,
              std::time_t first, std::time_t last) {
  const std::size_t places = layout.places();
  Checked best{.bytes = places * layout.size, .wrong = places * layout.size};
  if (best.bytes == 0) return best;
  const std::size_t end = layout.offset(places - 1) + layout.size;
  if (end > memory.size()) return best;
  for (std::time_t seed = first; seed <= last && best.wrong > 0; ++seed) {
    const auto expected = perftest_bytes(static_cast<std::uint32_t>(seed), at + end);
    std::uint64_t wrong = 0;
    for (std::size_t place = 0; place < places; ++place) {
      for (std::size_t i = 0; i < layout.size; ++i) {
        const std::size_t where = layout.offset(place) + i;
        wrong += expected[at + where] == memory[where] ? 0 : 1;
      }
    }
    best.wrong = std::min(best.wrong, wrong);
  }
  return best;
}

}  // namespace tally::transport::roce::target
