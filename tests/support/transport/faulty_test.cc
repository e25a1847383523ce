#include "tests/support/transport/faulty.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "dataplane/transport/contract.h"
#include "tests/support/transport/loopback.h"

namespace tally::transport {
namespace {

class FaultyTest : public ::testing::Test {
 protected:
  static constexpr Peer kPeers = 4;

  FaultyTest() : inner_({.mode = LoopbackConfig::Mode::kStaged}), memory_(64) {
    for (Peer peer = 0; peer < kPeers; ++peer) {
      inner_.connect(peer);
      inner_.add_region(peer, 1, memory_);
    }
  }

  Faulty make(const FaultRates& rates, std::uint64_t seed = 1) {
    return Faulty(inner_, {.seed = seed, .rates = rates});
  }

  void send(Peer peer, int number) {
    RingEntry entry{};
    entry.bytes[1] = static_cast<std::byte>(number);
    inner_.send(peer, entry);
  }
  static int number(const Received& received) {
    return static_cast<int>(received.message.bytes[1]);
  }

  // Everything that comes within a hundred polls.
  static std::vector<Received> receive(Faulty& faulty) {
    std::vector<Received> all;
    std::array<Received, 8> burst;
    for (int poll = 0; poll < 100; ++poll) {
      const std::size_t count = faulty.receive(burst);
      all.insert(all.end(), burst.begin(), burst.begin() + count);
    }
    return all;
  }

  static std::vector<Pulled> pulled(Faulty& faulty, int polls = 100) {
    std::vector<Pulled> all;
    std::array<Pulled, 8> burst;
    while (polls-- > 0) {
      const std::size_t count = faulty.pulled(burst);
      all.insert(all.end(), burst.begin(), burst.begin() + count);
    }
    return all;
  }

  static void pull(Faulty& faulty, Peer peer, std::uint64_t user) {
    const Pull pull{{peer, 1, 0, 64}, user};
    faulty.pull({&pull, 1});
  }

  Loopback inner_;
  std::vector<std::byte> memory_;
};

TEST_F(FaultyTest, WithoutRatesNothingHappens) {
  Faulty faulty = make({});
  for (int i = 0; i < 20; ++i) send(i % kPeers, i);
  const auto all = receive(faulty);
  ASSERT_EQ(all.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(number(all[static_cast<std::size_t>(i)]), i);
}

TEST_F(FaultyTest, PeersOvertakeEachOtherButNoneItself) {
  Faulty faulty = make({.delay_notice = 0.5});
  for (int i = 0; i < 100; ++i) send(i % kPeers, i);
  const auto all = receive(faulty);
  ASSERT_EQ(all.size(), 100u);
  std::map<Peer, int> last;
  int overtakings = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [place, first] = last.try_emplace(all[i].peer, number(all[i]));
    if (!first) {
      EXPECT_EQ(number(all[i]), place->second + static_cast<int>(kPeers));
    }
    place->second = number(all[i]);
    overtakings += i > 0 && number(all[i]) < number(all[i - 1]);
  }
  EXPECT_GT(overtakings, 5);
}

TEST_F(FaultyTest, EveryPullIsAnsweredOnceInAnyOrder) {
  Faulty faulty = make({.delay_pull = 0.7, .fail_pull = 0.2});
  for (std::uint64_t user = 0; user < 200; ++user) pull(faulty, user % kPeers, user + 1000);
  const auto all = pulled(faulty);
  ASSERT_EQ(all.size(), 200u);
  std::vector<int> answers(200);
  int failed = 0;
  for (const Pulled& answer : all) {
    ++answers[answer.user - 1000];
    failed += answer.status != Status::kOk;
    if (answer.status == Status::kOk) faulty.release(answer.handle);
  }
  EXPECT_EQ(std::count(answers.begin(), answers.end(), 1), 200);
  EXPECT_GT(failed, 20);
  EXPECT_LT(failed, 60);
  EXPECT_FALSE(std::is_sorted(all.begin(), all.end(),
                              [](const auto& a, const auto& b) { return a.user < b.user; }));
  EXPECT_EQ(faulty.held() + inner_.views_held(), 0u);
}

TEST_F(FaultyTest, ACorruptedPullHasOneBitTurnedAndThePeersMemoryNone) {
  int asked = 0;
  Faulty faulty(inner_, {.rates = {.corrupt_pull = 0.5}, .spares = [&](const Range& range) {
                           EXPECT_EQ(range.bytes, 64u);
                           ++asked;
                           return range.peer == 3;
                         }});
  int corrupted = 0;
  faulty.observe([&](FaultEvent event, Peer peer, const RingEntry*) {
    EXPECT_EQ(event, FaultEvent::kCorrupted);
    EXPECT_NE(peer, 3u);
    ++corrupted;
  });
  for (std::uint64_t user = 0; user < 100; ++user) pull(faulty, user % kPeers, user);
  int turned = 0;
  for (const Pulled& answer : pulled(faulty)) {
    int bits = 0;
    for (const Span& piece : answer.view) {
      for (std::size_t i = 0; i < piece.bytes; ++i) {
        bits += std::popcount(std::to_integer<unsigned>(piece.data[i]));  // the memory is zero
      }
    }
    EXPECT_LE(bits, 1);
    turned += bits;
    faulty.release(answer.handle);
  }
  EXPECT_EQ(turned, corrupted);
  EXPECT_GT(corrupted, 20);
  EXPECT_GT(asked, corrupted);
  EXPECT_TRUE(
      std::all_of(memory_.begin(), memory_.end(), [](std::byte b) { return b == std::byte{}; }));
}

TEST_F(FaultyTest, AStoppedPeerIsSilentUntilItResumes) {
  Faulty faulty = make({});
  faulty.stop(1);
  send(1, 1);
  send(2, 2);
  pull(faulty, 1, 1);
  pull(faulty, 2, 2);
  EXPECT_EQ(receive(faulty).size(), 1u);
  auto answers = pulled(faulty);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].user, 2u);
  EXPECT_FALSE(faulty.arm());
  faulty.resume(1);
  EXPECT_EQ(receive(faulty).size(), 1u);
  EXPECT_EQ(pulled(faulty).size(), 1u);
}

TEST_F(FaultyTest, ADroppedPeerIsAnsweredForAndReportedOnce) {
  Faulty faulty = make({.delay_pull = 1});
  for (std::uint64_t user = 0; user < 50; ++user) pull(faulty, 1, user);
  pulled(faulty, 1);
  faulty.stop(1);
  faulty.drop(1);
  std::array<Peer, 4> lost;
  std::size_t reports = 0;
  for (int poll = 0; poll < 20; ++poll) reports += faulty.lost(lost);
  EXPECT_EQ(reports, 1u);
  EXPECT_EQ(lost[0], 1u);
  const auto all = pulled(faulty);
  EXPECT_EQ(all.size(), 50u);
  for (const Pulled& answer : all) {
    if (answer.status == Status::kOk) faulty.release(answer.handle);
  }
  EXPECT_EQ(inner_.views_held(), 0u);
  EXPECT_THROW(pull(faulty, 1, 1), ContractViolation);
}

TEST_F(FaultyTest, NoticesAreDoubledAndSpoilt) {
  Faulty faulty = make({.duplicate_notice = 0.2, .garbage_notice = 0.2, .flip_notice = 0.2});
  std::map<FaultEvent, int> events;
  faulty.observe([&](FaultEvent event, Peer, const RingEntry*) { ++events[event]; });
  for (int i = 0; i < 100; ++i) send(i % kPeers, i);
  const auto all = receive(faulty);
  EXPECT_GT(events[FaultEvent::kDuplicated], 5);
  EXPECT_GT(events[FaultEvent::kGarbled], 5);
  EXPECT_GT(events[FaultEvent::kFlipped], 5);
  EXPECT_EQ(all.size(), 100u + static_cast<std::size_t>(events[FaultEvent::kDuplicated]));
  EXPECT_EQ(events[FaultEvent::kNotice], static_cast<int>(all.size()));
}

TEST_F(FaultyTest, TheSeedDecidesEverything) {
  const auto schedule = [&](std::uint64_t seed) {
    Faulty faulty = make({.delay_notice = 0.5, .duplicate_notice = 0.1}, seed);
    for (int i = 0; i < 50; ++i) send(i % kPeers, i);
    std::vector<int> numbers;
    for (const Received& received : receive(faulty)) numbers.push_back(number(received));
    return numbers;
  };
  EXPECT_EQ(schedule(5), schedule(5));
  EXPECT_NE(schedule(5), schedule(6));
}

}  // namespace
}  // namespace tally::transport
