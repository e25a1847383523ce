// A session whose node has stopped in the middle of a tile: it says so in its segment's storing
// word, and does nothing any more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "client/session/session.h"
#include "dataplane/transport/shm/segment.h"
#include "tests/support/client/scripted_node.h"
#include "tests/support/tier.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
namespace shm = transport::shm;

constexpr std::uint32_t kTwoAtATime = 2;

// No descriptor can be had, hence no memfd, while this lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{3, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

class StoppedNode : public ::testing::Test {
 protected:
  StoppedNode() {
    node_.emplace("/tmp/tally-loss-test-" + std::to_string(::getpid()) + ".sock", answer);
    SessionOptions options;
    options.address = node_->address();
    options.job = "j";
    options.ranks = 2;
    options.checksums = false;
    options.fence_timeout = 50 * kMillisecond;
    session_ = std::move(Session::open(std::move(options))).value();
    region_ = session_->add_region(Region::allocate(4096).value()).value();
    other_ = session_->add_region(Region::allocate(4096).value()).value();
    Post post;
    post.notice.tag = 7;
    post.notice.count = 16;
    post.in = post.out = region_;
    EXPECT_TRUE(session_->post(post).ok());
    const shm::SegmentGeometry geometry{1, kTwoAtATime};
    segment_ = shm::map_peer(node_->descriptor(0), geometry.bytes(), "segment").value();
    storing_ = &shm::Segment(segment_.data(), geometry).block(0).storing;
    storing_->store(1);
  }

  static json answer(const std::string& method, const json&) {
    if (method == "job.open") return {{"result", {{"nodes", json::array()}}}};
    if (method == "region.register") return {{"result", {{"region", ++regions}}}};
    if (method != "session.open") return {{"result", json::object()}};
    return {{"result",
             {{"epoch", 1},
              {"weights", {65536}},
              {"split_bytes", 4096},
              {"credit", kTwoAtATime},
              {"deadline_ms", 100'000}}}};
  }
  // Its control connection ends, and nothing else.
  void cut_off() { node_.reset(); }

  static inline std::uint32_t regions = 0;
  std::optional<ScriptedNode> node_;
  Mapping segment_;
  std::atomic<std::uint32_t>* storing_ = nullptr;
  std::unique_ptr<Session> session_;
  Region* region_ = nullptr;
  Region* other_ = nullptr;
  Completed completed_;
};

TEST_F(StoppedNode, KeepsAnOrphanWhereTheMemoryCanMove) {
  cut_off();
  ASSERT_TRUE(session_->wait(completed_, kForever).ok());
  EXPECT_EQ(completed_.status, Status::kNodeLost);
  EXPECT_FALSE(session_->held_back());
}

TEST_F(StoppedNode, LossFencesTheNodeBeforeBuffersReturn) {
  storing_->store(0);
  cut_off();
  ASSERT_TRUE(session_->wait(completed_, kForever).ok());
  EXPECT_EQ(completed_.status, Status::kNodeLost);
  const shm::SegmentGeometry geometry{1, kTwoAtATime};
  EXPECT_EQ(shm::Segment(segment_.data(), geometry).header().fence.load(), 1U);
}

TEST_F(StoppedNode, StoresOfTheNodeDoNotReachReturnedBuffers) {
  const Mapping of_node = shm::map_peer(node_->descriptor(2), region_->bytes(), "region").value();
  region_->data()[0] = std::byte{1};
  ASSERT_EQ(of_node.data()[0], std::byte{1}) << "the same memory";
  cut_off();
  ASSERT_TRUE(session_->wait(completed_, kForever).ok());
  of_node.data()[0] = std::byte{2};
  EXPECT_EQ(region_->data()[0], std::byte{1});
}

// The shortest of some waits, because a busy machine makes any one of them longer.
TEST_F(StoppedNode, WaitEndsAtItsTime) {
  constexpr Nanos kWait = 50 * kMillisecond;
  Nanos shortest = kForever;
  for (int i = 0; i < 5; ++i) {
    const Nanos begin = monotonic_now();
    EXPECT_EQ(session_->wait(completed_, begin + kWait).status(), Status::kAgain);
    const Nanos waited = monotonic_now() - begin;
    EXPECT_GE(waited, kWait);
    shortest = std::min(shortest, waited);
  }
  EXPECT_LT(shortest, 10 * kWait);
  cut_off();  // without this, the destructor of the session waits for the node
}

// Neither a fence nor other memory can be had: the wait ends all the same, and the buffer is not
// the caller's before the node has let go of it.
TEST_F(StoppedNode, KeepsTheBuffersWhereTheMemoryCannotMove) {
  if (tally::testing::is_sanitized()) GTEST_SKIP() << "a sanitizer needs descriptors";
  const NoDescriptors none;
  cut_off();
  const Outcome waited = session_->wait(completed_, kForever);
  EXPECT_EQ(waited.status(), Status::kNodeLost);
  EXPECT_THAT(waited.error().message, HasSubstr("1 operations keep their buffers"));
  EXPECT_FALSE(session_->poll(completed_));
  EXPECT_EQ(session_->wait(completed_, kForever).status(), Status::kNodeLost) << "again";
  EXPECT_EQ(session_->remove_region(region_).status(), Status::kNodeLost);
  EXPECT_TRUE(session_->remove_region(other_).ok()) << "no operation uses it";
  EXPECT_FALSE(session_->arm());
  EXPECT_TRUE(session_->held_back());
  EXPECT_EQ(session_->cancel(7).status(), Status::kNodeLost);

  storing_->store(0);
  ASSERT_TRUE(session_->poll(completed_));
  EXPECT_EQ(completed_.status, Status::kNodeLost);
  EXPECT_EQ(completed_.tag, 7u);
  EXPECT_FALSE(session_->held_back());
  EXPECT_TRUE(session_->remove_region(region_).ok());
}

TEST_F(StoppedNode, GivesTheBuffersBackOnceThereIsMemoryToMoveThem) {
  if (tally::testing::is_sanitized()) GTEST_SKIP() << "a sanitizer needs descriptors";
  std::optional<NoDescriptors> none(std::in_place);
  cut_off();
  EXPECT_EQ(session_->wait(completed_, kForever).status(), Status::kNodeLost);
  none.reset();
  const Nanos end = monotonic_now() + 10 * kSecond;
  bool came = false;
  while (!came && monotonic_now() < end) came = session_->poll(completed_);
  EXPECT_TRUE(came);
  EXPECT_EQ(completed_.status, Status::kNodeLost);
}

TEST_F(StoppedNode, IsNotWaitedForAtTheSessionsEnd) {
  if (tally::testing::is_sanitized()) GTEST_SKIP() << "a sanitizer needs descriptors";
  const NoDescriptors none;
  cut_off();
  const Nanos begin = monotonic_now();
  session_.reset();
  EXPECT_LT(monotonic_now() - begin, 5 * kSecond);
}

}  // namespace
}  // namespace tally::client
