#include "control/coordinator/store/write_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "control/coordinator/store/large_values.h"

namespace tally::control {
namespace {

using Stored = std::map<std::string, std::string>;

void store_write(const Write& write, Stored& stored) {
  if (write.value) {
    stored[write.key] = *write.value;
  } else {
    stored.erase(write.key);
  }
}

TEST(WriteQueue, ABatchHasEachKeyOnceWithItsLastValue) {
  WriteQueue queue(10, 1000);
  queue.add({"a", "1"});
  queue.add({"b", "1"});
  queue.add({"a", std::nullopt});
  const auto batch = queue.take();
  ASSERT_EQ(batch.writes.size(), 2U);
  EXPECT_EQ(batch.writes[0].key, "a");
  EXPECT_EQ(batch.writes[0].value, std::nullopt);
  EXPECT_EQ(batch.last, 3U);
  EXPECT_TRUE(queue.empty());
}

TEST(WriteQueue, BatchesKeepLimitsAndOrder) {
  WriteQueue queue(2, 10);
  for (const char* key : {"a", "b", "c"}) queue.add({key, "1"});
  queue.add({"d", std::string(50, 'x')});
  EXPECT_EQ(queue.take().last, 2U);
  EXPECT_EQ(queue.take().last, 3U);
  EXPECT_EQ(queue.take().last, 4U) << "a single write may be larger";
}

TEST(WriteQueue, AnyPrefixOfTheBatchesIsAStateThatExisted) {
  std::mt19937 random(7);
  WriteQueue queue(3, 8);
  std::vector<Stored> states(1);
  for (int i = 0; i < 500; ++i) {
    Write write{std::string(1, static_cast<char>('a' + random() % 5)), std::nullopt};
    if (random() % 3 != 0) write.value = std::to_string(random() % 1000);
    states.push_back(states.back());
    store_write(write, states.back());
    queue.add(std::move(write));
  }
  Stored stored;
  while (!queue.empty()) {
    const auto batch = queue.take();
    for (const Write& one : batch.writes) store_write(one, stored);
    EXPECT_EQ(stored, states[batch.last]);
  }
}

// The writer may end between any two writes.
TEST(LargeValues, AReaderFindsTheOldValueOrTheNewOne) {
  const std::string small = "s", large(25, 'l'), larger(47, 'm');
  LargeValues writer("1", 10);
  Stored stored;
  std::string before;
  for (const std::string& value : {large, small, larger, large}) {
    for (const Write& one : writer.put("k", value)) {
      store_write(one, stored);
      const auto read = LargeValues("2", 10).read(stored);
      EXPECT_TRUE(read.unreadable.empty());
      const auto found = read.values.find("k");
      const std::string is = found == read.values.end() ? "" : found->second;
      EXPECT_TRUE(is == before || is == value) << is;
    }
    before = value;
    EXPECT_EQ(LargeValues("2", 10).read(stored).values.at("k"), value);
    EXPECT_TRUE(LargeValues("2", 10).read(stored).left_over.empty());
  }
  for (const Write& one : writer.erase("k")) store_write(one, stored);
  EXPECT_TRUE(stored.empty());
}

TEST(LargeValues, TheNextWriterErasesWhatWasNotFinished) {
  LargeValues writer("1", 10);
  Stored stored;
  const auto writes = writer.put("k", std::string(25, 'l'));
  for (std::size_t i = 0; i + 1 < writes.size(); ++i) store_write(writes[i], stored);
  LargeValues next("2", 10);
  for (const Write& one : next.read(stored).left_over) store_write(one, stored);
  EXPECT_TRUE(stored.empty());
}

TEST(LargeValues, AMissingPartMakesAValueUnreadable) {
  LargeValues writer("1", 10);
  Stored stored;
  for (const Write& one : writer.put("k", std::string(25, 'l'))) store_write(one, stored);
  stored.erase("part/1/1/1");
  stored["other"] = "x is no value";
  stored["empty"] = "";
  stored["list"] = "p[1, 2]";
  const auto read = LargeValues("2", 10).read(stored);
  EXPECT_TRUE(read.values.empty());
  EXPECT_EQ(read.unreadable.size(), 4U);
}

}  // namespace
}  // namespace tally::control
