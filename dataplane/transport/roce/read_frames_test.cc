#include "dataplane/transport/roce/read_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <vector>

namespace tally::transport::roce {
namespace {

constexpr std::uint32_t kPacket = ReadFrames::kLeastPacket;
constexpr std::uint32_t kOperation = 3;

// Its frames are numbers, and given_back has those that have been given back.
class ReadFramesTest : public ::testing::Test {
 public:
  ReadFramesTest() {
    given_back.clear();
    Frame::set_give_back(
        [](rte_mbuf* chain) { given_back.push_back(reinterpret_cast<std::uintptr_t>(chain)); });
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  }
  // The packet that has the bytes from `offset` on, in one piece or in two.
  void add(std::size_t offset, std::size_t count, std::uintptr_t frame, bool is_in_pieces = false) {
    Arrival arrival;
    arrival.frame = Frame(reinterpret_cast<rte_mbuf*>(frame));
    const std::byte* const data = bytes.data() + offset;
    const std::size_t first = is_in_pieces ? count / 2 : count;
    arrival.spans[arrival.span_count++] = {data, first};
    if (is_in_pieces) arrival.spans[arrival.span_count++] = {data + first, count - first};
    frames.add(kOperation, offset, kPacket, arrival, landing.data());
  }
  std::vector<std::byte> joined() const {
    std::vector<std::byte> all;
    for (const Span& piece : frames.view(kOperation)) {
      all.insert(all.end(), piece.data, piece.data + piece.bytes);
    }
    return all;
  }

  static inline std::vector<std::uintptr_t> given_back;
  std::vector<std::byte> bytes = std::vector<std::byte>(3 * kPacket - 6);
  std::vector<std::byte> landing = std::vector<std::byte>(3 * kPacket);
  ReadFrames frames{2};
};

TEST_F(ReadFramesTest, GivesTheBytesInOrderOutOfTheFrames) {
  frames = ReadFrames(3);
  add(2 * kPacket, kPacket - 6, 30);
  add(0, kPacket, 10);
  add(kPacket, kPacket, 20);
  EXPECT_EQ(joined(), bytes);
  EXPECT_EQ(frames.view(kOperation)[1].data, bytes.data() + kPacket) << "a copy";
  EXPECT_EQ(frames.kept(), 3U);
  EXPECT_TRUE(given_back.empty());
  frames.drop(kOperation);
  EXPECT_EQ(frames.kept(), 0U);
  EXPECT_EQ(given_back, (std::vector<std::uintptr_t>{30, 10, 20}));
}

TEST_F(ReadFramesTest, CopiesWhatItMayNotKeep) {
  for (std::size_t i = 0; i < 3; ++i) {
    add(i * kPacket, std::min<std::size_t>(kPacket, bytes.size() - i * kPacket), 10 + i);
  }
  EXPECT_EQ(joined(), bytes);
  EXPECT_EQ(frames.kept(), 2U);
  EXPECT_EQ(given_back, std::vector<std::uintptr_t>{12});
  EXPECT_EQ(frames.view(kOperation)[2].data, landing.data() + 2 * kPacket);
}

TEST_F(ReadFramesTest, CopiesShortPackets) {
  constexpr std::uint32_t kShort = kPacket / 2;
  for (std::size_t offset = 0; offset < bytes.size(); offset += kShort) {
    Arrival arrival;
    arrival.frame = Frame(reinterpret_cast<rte_mbuf*>(std::uintptr_t{10}));
    const std::size_t count = std::min<std::size_t>(kShort, bytes.size() - offset);
    arrival.spans[arrival.span_count++] = {bytes.data() + offset, count};
    frames.add(kOperation, offset, kShort, arrival, landing.data());
    EXPECT_TRUE(arrival.frame);
  }
  EXPECT_EQ(frames.kept(), 0U);
  EXPECT_TRUE(frames.view(kOperation).empty());
  EXPECT_EQ(std::memcmp(landing.data(), bytes.data(), bytes.size()), 0);
  frames.drop(kOperation);
}

TEST_F(ReadFramesTest, CopiesPacketsInPieces) {
  add(0, kPacket, 10, true);
  add(kPacket, kPacket, 20);
  add(2 * kPacket, kPacket - 6, 30, true);
  EXPECT_EQ(joined(), bytes);
  EXPECT_EQ(frames.kept(), 1U);
}

TEST_F(ReadFramesTest, AnOperationThatFailedBeforeItsBytesCameHasNothingToDrop) {
  frames.drop(kOperation);
  frames.drop(100);
  add(0, kPacket, 10);
  frames.drop(kOperation);
  frames.drop(kOperation);
  EXPECT_EQ(given_back, std::vector<std::uintptr_t>{10});
}

}  // namespace
}  // namespace tally::transport::roce
