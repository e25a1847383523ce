#include "integrations/python/src/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "integrations/python/src/shared_pool.h"
#include "integrations/python/src/test_waited.h"
#include "tests/e2e/local_node.h"

namespace tally::python {
namespace {

CommunicatorOptions options(const testing::LocalNode& node, std::uint32_t rank,
                            std::uint32_t ranks) {
  CommunicatorOptions options;
  options.address = node.address();
  options.rank = rank;
  options.ranks = ranks;
  options.deadline_ms = 20'000;
  return options;
}

Request sum(const float* in, float* out, std::uint64_t count) {
  Request request;
  request.count = count;
  request.in = in;
  request.out = out;
  return request;
}

template <typename Body>
void on_each_rank(std::uint32_t ranks, const testing::LocalNode& node, Body body) {
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator communicator(options(node, rank, ranks));
      body(communicator);
      // Nobody hangs up while another waits.
      Waited barrier;
      Request request;
      request.kind = TALLY_BARRIER;
      communicator.post(request, barrier.done());
      EXPECT_TRUE(communicator.await([&] { return barrier.over(); }, std::nullopt));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Communicator, RefusesDeviceMemoryThatItDoesNotKnow) {
  const testing::LocalNode node;
  Communicator communicator(options(node, 0, 1));
  float host = 1;
  Request request = sum(&host, &host, 1);
  request.on_device = true;
  const auto status_of = [&] {
    try {
      communicator.post(request, [](const Outcome&) {});
    } catch (const Failure& failure) {
      return failure.status;
    }
    return TALLY_OK;
  };
  EXPECT_EQ(status_of(), TALLY_BAD_REGION);
  request.tag = Communicator::kOwnDeviceTags;
  EXPECT_EQ(status_of(), TALLY_INVALID_ARGUMENT);
}

TEST(Communicator, SumsAnyMemoryAndCopiesOnlyWhatItMust) {
  const testing::LocalNode node;
  on_each_rank(2, node, [](Communicator& communicator) {
    constexpr std::uint64_t kCount = 300'000;
    std::vector<float> own(kCount, static_cast<float>(communicator.rank() + 1)), out(kCount);
    Waited copied;
    communicator.post(sum(own.data(), out.data(), kCount), copied.done());
    ASSERT_TRUE(communicator.await([&] { return copied.over(); }, std::nullopt));
    ASSERT_EQ(copied.outcome.status, TALLY_OK) << copied.outcome.message;
    EXPECT_EQ(out[0], 3.0f);
    EXPECT_EQ(out[kCount - 1], 3.0f);
    EXPECT_EQ(communicator.copied_bytes(), 2 * kCount * sizeof(float));

    auto* pooled =
        static_cast<float*>(SharedPool::instance().allocate(kCount * sizeof(float)).value());
    std::fill(pooled, pooled + kCount, 2.0f);
    Waited in_place;
    communicator.post(sum(pooled, pooled, kCount), in_place.done());
    ASSERT_TRUE(communicator.await([&] { return in_place.over(); }, std::nullopt));
    EXPECT_EQ(pooled[7], 4.0f);
    EXPECT_EQ(communicator.copied_bytes(), 2 * kCount * sizeof(float)) << "no more than before";
    SharedPool::instance().free(pooled);
  });
}

TEST(Communicator, CompletionsComeWithoutAnybodyWaiting) {
  const testing::LocalNode node;
  on_each_rank(3, node, [](Communicator& communicator) {
    std::array<float, 500> in{}, out{};
    in.fill(1);
    Waited operation;
    communicator.post(sum(in.data(), out.data(), in.size()), operation.done());
    for (int i = 0; i < 10'000 && !operation.over(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_TRUE(operation.over());
    EXPECT_EQ(out[499], 3.0f);
  });
}

// A burst of several completions whose first callback closes the session: the results of the others
// are in memory that the session's end unmaps.
TEST(Communicator, CallbackMayCloseTheSession) {
  const testing::LocalNode node;
  for (const bool awaited : {false, true}) {
    Communicator communicator(options(node, 0, 1));
    constexpr std::size_t kOperations = 8;
    std::vector<std::vector<float>> out(kOperations, std::vector<float>(5'000));
    const std::vector<float> in(5'000, 2.0f);
    std::vector<Waited> operations(kOperations);
    std::atomic<bool> posted{false};
    for (std::size_t i = 0; i < kOperations; ++i) {
      Request request = sum(in.data(), out[i].data(), in.size());
      request.awaited = awaited;
      communicator.post(request, [&, done = operations[i].done()](const Outcome& outcome) {
        if (posted) communicator.close();
        done(outcome);
      });
    }
    posted = true;
    EXPECT_TRUE(communicator.await(
        [&] {
          return std::all_of(operations.begin(), operations.end(),
                             [](const Waited& one) { return one.over(); });
        },
        monotonic_now() + 20'000 * kMillisecond));
    communicator.close();
    for (std::size_t i = 0; i < kOperations; ++i) {
      if (operations[i].outcome.status == TALLY_OK) {
        EXPECT_EQ(out[i].back(), 2.0f);
      } else {
        EXPECT_EQ(operations[i].outcome.status, TALLY_CANCELLED);
      }
    }
    EXPECT_TRUE(communicator.closed());
  }
}

TEST(Communicator, ClosesWhileOthersTakeCompletions) {
  const testing::LocalNode node;
  for (int round = 0; round < 20; ++round) {
    Communicator communicator(options(node, 0, 1));
    std::atomic<int> open{0}, ended{0};
    std::vector<float> in(30'000, 1.0f);
    std::vector<std::vector<float>> out(3, std::vector<float>(in.size()));
    std::vector<std::thread> threads;
    for (auto& mine : out) {
      threads.emplace_back([&] {
        try {
          for (;;) {
            Waited operation;
            communicator.post(sum(in.data(), mine.data(), in.size()), operation.done());
            ++open;
            EXPECT_TRUE(communicator.await([&] { return operation.over(); }, std::nullopt));
            ++ended;
          }
        } catch (const Failure& failure) {  // of post(), after the close
          EXPECT_NE(failure.status, TALLY_INTERNAL) << failure.what();
        }
      });
    }
    while (ended < 10) std::this_thread::yield();
    communicator.close();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(open, ended);
  }
}

TEST(Communicator, MoreThanCreditFromManyThreads) {
  const testing::LocalNode node;
  on_each_rank(2, node, [](Communicator& communicator) {
    constexpr int kThreads = 3, kOperations = 150;
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        std::vector<std::array<float, 64>> data(kOperations);
        std::vector<Waited> waited(kOperations);
        for (int i = 0; i < kOperations; ++i) {
          auto& one = data[static_cast<std::size_t>(i)];
          one.fill(1);
          // Numbered in the order of posting. With tags of their own the two ranks' threads could
          // use up their credit on different ones, and wait for each other until the deadline.
          const Request request = sum(one.data(), one.data(), one.size());
          communicator.post(request, waited[static_cast<std::size_t>(i)].done());
        }
        for (int i = 0; i < kOperations; ++i) {
          const auto at = static_cast<std::size_t>(i);
          communicator.await([&] { return waited[at].over(); }, std::nullopt);
          if (waited[at].outcome.status == TALLY_OK && data[at][63] == 2.0f) ++right;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, kThreads * kOperations);
  });
}

TEST(Communicator, AThreadThatSleepsGetsACompletionThatAnotherTook) {
  const testing::LocalNode node;
  Communicator first(options(node, 0, 2)), second(options(node, 1, 2));
  constexpr int kWaiters = 4;
  std::array<Waited, kWaiters> waited;
  std::array<float, kWaiters> mine{}, other{};
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < kWaiters; ++i) {
    Request request = sum(&mine[i], &mine[i], 1);
    request.tag = i;
    request.awaited = true;
    first.post(request, waited[i].done());
    threads.emplace_back(
        [&, i] { EXPECT_TRUE(first.await([&] { return waited[i].over(); }, std::nullopt)); });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // all are asleep
  std::array<Waited, kWaiters> theirs;
  for (std::uint32_t i = 0; i < kWaiters; ++i) {
    Request request = sum(&other[i], &other[i], 1);
    request.tag = i;
    second.post(request, theirs[i].done());
  }
  for (std::thread& thread : threads) thread.join();
  for (Waited& one : theirs) second.await([&] { return one.over(); }, std::nullopt);
}

TEST(Communicator, AwaitKeepsItsTime) {
  const testing::LocalNode node;
  Communicator alone(options(node, 0, 2));
  float value = 1;
  Waited operation;
  alone.post(sum(&value, &value, 1), operation.done());
  int looked_up = 0;
  EXPECT_FALSE(alone.await([&] { return operation.over(); }, monotonic_now() + 300 * kMillisecond,
                           [&] { ++looked_up; }));
  EXPECT_GT(looked_up, 0) << "somebody can interrupt it";
  EXPECT_FALSE(operation.over());
  EXPECT_THROW(alone.await([&] { return operation.over(); }, std::nullopt,
                           [] { throw std::runtime_error("interrupted"); }),
               std::runtime_error);
  alone.close();
  EXPECT_TRUE(operation.over()) << "closing wakes the threads that wait";
  EXPECT_EQ(operation.outcome.status, TALLY_CANCELLED);
  EXPECT_THROW(alone.post(sum(&value, &value, 1), operation.done()), Failure);
}

TEST(Communicator, RefusesWrongRequestsAtOnce) {
  const testing::LocalNode node;
  Communicator alone(options(node, 0, 1));
  float value = 1;
  Waited operation;
  EXPECT_THROW(alone.post(sum(nullptr, &value, 1), operation.done()), Failure);
  EXPECT_THROW(alone.post(sum(&value, nullptr, 1), operation.done()), Failure);
  Request request = sum(&value, &value, 1);
  request.tag = Communicator::kOwnTags;
  EXPECT_THROW(alone.post(request, operation.done()), Failure);
  CommunicatorOptions nowhere;
  nowhere.address = "unix:/nowhere/s";
  nowhere.connect_timeout_ms = 50;
  try {
    Communicator lost(nowhere);
    FAIL() << "there is nobody";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status, TALLY_UNAVAILABLE);
  }
}

TEST(Communicator, ALostNodeEndsOutstandingOperations) {
  auto node = std::make_unique<testing::LocalNode>();
  Communicator alone(options(*node, 0, 2));
  float value = 1;
  Waited operation;
  alone.post(sum(&value, &value, 1), operation.done());
  node.reset();
  EXPECT_TRUE(alone.await([&] { return operation.over(); }, monotonic_now() + 20 * kSecond));
  EXPECT_NE(operation.outcome.status, TALLY_OK);
}

}  // namespace
}  // namespace tally::python
