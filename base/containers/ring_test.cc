#include "base/containers/ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tally {
namespace {

RingEntry numbered(std::uint64_t number) {
  RingEntry entry{};
  std::memcpy(entry.bytes, &number, sizeof number);
  return entry;
}

std::uint64_t number_of(const RingEntry& entry) {
  std::uint64_t number = 0;
  std::memcpy(&number, entry.bytes, sizeof number);
  return number;
}

struct Ring {
  explicit Ring(std::size_t capacity)
      : entries(capacity), producer(indices, entries), consumer(indices, entries) {}
  RingIndices indices;
  std::vector<RingEntry> entries;
  RingProducer producer;
  RingConsumer consumer;
};

TEST(Ring, PopsInOrderAndRefusesToPushWhenFull) {
  Ring ring(4);
  std::vector<RingEntry> out(8);
  std::uint64_t next_in = 0, next_out = 0;
  for (int lap = 0; lap < 5; ++lap) {
    while (ring.producer.push(numbered(next_in))) ++next_in;
    EXPECT_EQ(next_in - next_out, 4u);
    const std::size_t got = ring.consumer.pop(std::span(out).first(3));
    ASSERT_EQ(got, 3u);
    for (std::size_t i = 0; i < got; ++i) EXPECT_EQ(number_of(out[i]), next_out++);
  }
}

TEST(Ring, IndicesWrapAround) {
  Ring ring(2);
  RingEntry out[1] = {};
  ring.indices.head = ring.indices.tail = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    ASSERT_TRUE(ring.producer.push(numbered(i)));
    ASSERT_EQ(ring.consumer.pop(out), 1u);
    ASSERT_EQ(number_of(out[0]), i);
  }
  EXPECT_TRUE(ring.consumer.empty());
}

TEST(Ring, ATailThatCannotBeIsReportedNotFollowed) {
  Ring ring(4);
  RingEntry out[4];
  ring.indices.tail.store(5);
  EXPECT_EQ(ring.consumer.pop(out), 0u);
  EXPECT_TRUE(ring.consumer.broken());
  ring.indices.tail.store(1);
  EXPECT_EQ(ring.consumer.pop(out), 0u) << "once broken, always broken";
}

TEST(Ring, CarriesMessagesBetweenThreads) {
  Ring ring(64);
  constexpr std::uint64_t kMessages = 20'000;
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kMessages;) {
      if (ring.producer.push(numbered(i)))
        ++i;
      else
        std::this_thread::yield();
    }
  });
  RingEntry out[16];
  for (std::uint64_t expected = 0; expected < kMessages;) {
    const std::size_t got = ring.consumer.pop(out);
    for (std::size_t i = 0; i < got; ++i) ASSERT_EQ(number_of(out[i]), expected++);
    if (got == 0) std::this_thread::yield();
  }
  producer.join();
}

}  // namespace
}  // namespace tally
