// A consumer whose producer is hostile: whatever stands in the shared words, it takes no more than
// the ring holds, and stays broken once it has seen the impossible.
#include <array>
#include <vector>

#include "base/containers/ring.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using tally::fuzz::require;
  tally::fuzz::Input input(data, bytes);
  tally::RingIndices indices;
  std::vector<tally::RingEntry> entries(8);
  tally::RingConsumer consumer(indices, entries);
  std::array<tally::RingEntry, 16> out;
  while (!input.empty()) {
    if (input.pick(2) == 0) {
      indices.tail.store(indices.tail.load() + input.take<std::uint8_t>());
    } else {
      indices.tail.store(input.take<std::uint32_t>());
    }
    if (input.pick(4) == 0) indices.head.store(input.take<std::uint32_t>());
    const bool was_broken = consumer.broken();
    const std::size_t count = consumer.pop(std::span(out).first(1 + input.pick(16)));
    require(count <= entries.size(), "no more messages than the ring holds");
    require(!was_broken || (consumer.broken() && count == 0), "broken stays broken");
  }
  return 0;
}
