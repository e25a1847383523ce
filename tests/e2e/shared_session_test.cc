// One session is used by one thread at a time: two at once are told so, and nothing is lost. One
// after the other is fine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <optional>
#include <thread>

#include "tests/e2e/local_node.h"
#include "tests/e2e/ranks.h"

namespace tally::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kPosts = 2000;  // of each thread

class SharedSessionTest : public ::testing::Test {
 protected:
  LocalNode node_;
};

const tally_operation& barrier(std::uint32_t tag) {
  thread_local tally_operation made;
  made = operation(TALLY_BARRIER, TALLY_F32, tag, 0, {}, {});
  return made;
}

TEST_F(SharedSessionTest, EveryCallDuringAnotherThreadsIsRefusedWithItsName) {
  Rank first(node_.address(), 0, 2, "pair"), second(node_.address(), 1, 2, "pair");
  tally_session* const session = first.session();
  tally_region* region = nullptr;
  void* data = first.alloc<float>(8, &region);
  ASSERT_EQ(tally_post(session, &barrier(3)), TALLY_OK);
  std::thread waiter([&] { EXPECT_EQ(first.wait().tag, 3U); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));

  const auto refused = [&](int answer, const char* call) {
    EXPECT_EQ(answer, TALLY_INVALID_ARGUMENT) << call;
    EXPECT_THAT(tally_last_error(session), AllOf(HasSubstr(std::string(call) + ":"),
                                                 HasSubstr("tally_wait"), HasSubstr("one thread")));
  };
  tally_completion completion{};
  completion.size = sizeof completion;
  tally_memory memory{};
  memory.size = sizeof memory;
  memory.data = data;
  memory.bytes = 8;
  tally_session_info info{};
  info.size = sizeof info;
  tally_region* another = nullptr;
  refused(tally_post(session, &barrier(4)), "tally_post");
  refused(-tally_poll(session, &completion, 1), "tally_poll");
  refused(tally_wait(session, &completion, 0), "tally_wait");
  refused(tally_run(session, &barrier(4), &completion), "tally_run");
  refused(tally_cancel(session, 3), "tally_cancel");
  refused(tally_arm(session), "tally_arm");
  refused(tally_get_info(session, &info), "tally_get_info");
  refused(tally_region_alloc(session, 4096, &another, &data), "tally_region_alloc");
  refused(tally_region_register(session, &memory, &another), "tally_region_register");
  refused(tally_region_free(session, region), "tally_region_free");
  EXPECT_GE(tally_fd(session), 0) << "the same for the session's life";
  tally_close(session);  // refused too: the session goes on

  EXPECT_EQ(second.run(barrier(3)).status, TALLY_OK);
  waiter.join();
  ASSERT_EQ(tally_post(session, &barrier(4)), TALLY_OK) << first.error();
  EXPECT_STREQ(tally_last_error(session), "");
  EXPECT_EQ(second.run(barrier(4)).status, TALLY_OK);
  EXPECT_EQ(first.wait().tag, 4U);
}

// Two that do not know of each other: what was announced is completed once, and no node is blamed.
TEST_F(SharedSessionTest, TwoThreadsAtOnceLoseNothing) {
  Rank rank(node_.address(), 0, 1);
  std::atomic<int> posted{0}, completed{0}, refused{0};
  std::latch both(2);
  const auto use = [&](std::uint32_t thread) {
    tally_completion completion{};
    completion.size = sizeof completion;
    both.arrive_and_wait();
    for (int i = 0; i < kPosts; ++i) {
      const tally_status post = tally_post(rank.session(), &barrier(2 * (i % 32) + thread));
      posted += post == TALLY_OK;
      refused += post == TALLY_INVALID_ARGUMENT;
      ASSERT_TRUE(post == TALLY_OK || post == TALLY_INVALID_ARGUMENT || post == TALLY_DUPLICATE ||
                  post == TALLY_NO_CREDIT)
          << tally_status_name(post) << ": " << rank.error();
      const int polled = tally_poll(rank.session(), &completion, 1);
      ASSERT_TRUE(polled >= 0 || polled == -TALLY_INVALID_ARGUMENT) << polled;
      if (polled == 1) {
        ASSERT_EQ(completion.status, TALLY_OK) << completion.message;
        ++completed;
      }
    }
  };
  std::thread other(use, 1);
  use(0);
  other.join();
  tally_completion completion{};
  completion.size = sizeof completion;
  while (completed < posted && tally_wait(rank.session(), &completion, 20'000) == TALLY_OK) {
    EXPECT_EQ(completion.status, TALLY_OK) << completion.message;
    ++completed;
  }
  EXPECT_EQ(completed, posted) << rank.error();
  EXPECT_GT(posted, 0);
  EXPECT_EQ(tally_poll(rank.session(), &completion, 1), 0);
}

TEST_F(SharedSessionTest, OneThreadAfterTheOtherIsFine) {
  std::optional<Rank> rank;
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::thread([&] {
      if (!rank) rank.emplace(node_.address(), 0, 1);
      EXPECT_EQ(tally_post(rank->session(), &barrier(i)), TALLY_OK) << rank->error();
    }).join();
    std::thread([&] { EXPECT_EQ(rank->wait().tag, i); }).join();
  }
  std::thread([&] { rank.reset(); }).join();
}

TEST_F(SharedSessionTest, ACallFromTheLogFunctionIsRefused) {
  struct Seen {
    tally_session* session = nullptr;
    int poll = 0;
    std::string words;
  } seen;
  tally_session_options options{};
  options.size = sizeof options;
  const std::string address = node_.address();
  options.address = address.c_str();
  options.ranks = 1;
  options.log_context = &seen;
  options.log = [](void* context, int, const char*) {
    auto& here = *static_cast<Seen*>(context);
    if (here.session == nullptr) return;
    tally_completion completion{};
    completion.size = sizeof completion;
    here.poll = tally_poll(here.session, &completion, 1);
    here.words = tally_last_error(here.session);
  };
  ASSERT_EQ(tally_open(&options, &seen.session), TALLY_OK) << tally_last_error(nullptr);
  if (!LocalNode::over_network()) {
    float local[16] = {};
    tally_memory memory{};
    memory.size = sizeof memory;
    memory.data = local;
    memory.bytes = sizeof local;
    tally_region* region = nullptr;
    EXPECT_EQ(tally_region_register(seen.session, &memory, &region), TALLY_OK);
    EXPECT_EQ(seen.poll, -TALLY_INVALID_ARGUMENT);
    EXPECT_THAT(seen.words, AllOf(HasSubstr("tally_region_register"), HasSubstr("log function")));
  }
  tally_close(seen.session);
}

}  // namespace
}  // namespace tally::testing
