#include "dataplane/transport/shm/shm_transport.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "dataplane/transport/shm/memory.h"

namespace tally::transport::shm {
namespace {

constexpr Peer kPeer = 5;
constexpr std::uint32_t kRegion = 3;

// One transport with one client, whose side the test plays.
class PortTest : public ::testing::Test {
 protected:
  PortTest() : transport_(64), region_(10'000) {
    memory_ = std::move(make_shared("segment", geometry_.bytes())).value();
    segment_ = Segment(memory_.mapping.data(), geometry_);
    attach();
    notices_ = RingProducer(segment_.block(0).notices, segment_.notice_entries(0));
    completions_ = RingConsumer(segment_.block(0).completions, segment_.completion_entries(0));
  }

  void attach() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    bell_ = UniqueFd(pair[0]);
    transport_.attach(kPeer, segment_, 0, UniqueFd(pair[1]), faulted_);
    transport_.add_region(kPeer, kRegion, region_.data(), region_.size());
  }
  Pulled pull(const Range& range) {
    const Pull wanted{range, 9};
    transport_.pull({&wanted, 1});
    Pulled answer{0, Status::kInternal, {}, 0};
    EXPECT_EQ(transport_.pulled({&answer, 1}), 1u);
    return answer;
  }
  static RingEntry message(int number) {
    RingEntry entry{};
    std::memcpy(entry.bytes, &number, sizeof number);
    return entry;
  }
  static Range range(std::uint64_t offset, std::uint64_t bytes) {
    return Range{kPeer, kRegion, offset, bytes};
  }
  static bool readable(int fd) {
    pollfd waiter{fd, POLLIN, 0};
    return ::poll(&waiter, 1, 0) > 0;
  }
  std::vector<Peer> lost() {
    std::vector<Peer> out(4);
    out.resize(transport_.lost(out));
    return out;
  }

  SegmentGeometry geometry_{.shards = 1, .credit = 8};
  FaultWord faulted_{0};
  ShmTransport transport_;
  SharedMemory memory_;
  Segment segment_;
  UniqueFd bell_;
  std::vector<std::byte> region_;
  RingProducer notices_;
  RingConsumer completions_;
};

TEST_F(PortTest, NoticesComeInOrderAndByPeer) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(notices_.push(message(i)));
  std::vector<Received> out(4);
  int next = 0;
  while (const std::size_t count = transport_.receive(out)) {
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(out[i].peer, kPeer);
      EXPECT_EQ(std::memcmp(out[i].message.bytes, message(next++).bytes, 64), 0);
    }
  }
  EXPECT_EQ(next, 10);
}

TEST_F(PortTest, APullIsAViewOfTheWorkersMemory) {
  const Pull pulls[] = {{range(100, 50), 7}, {range(0, 10'001), 8}, {{9, 1, 0, 1}, 9}};
  transport_.pull(pulls);
  std::vector<Pulled> out(8);
  ASSERT_EQ(transport_.pulled(out), 3u);
  EXPECT_EQ(out[0].user, 7u);
  EXPECT_EQ(out[0].status, Status::kOk);
  ASSERT_EQ(out[0].view.size(), 1u);
  EXPECT_EQ(out[0].view[0].data, region_.data() + 100);
  EXPECT_EQ(out[0].view[0].bytes, 50u);
  EXPECT_EQ(out[1].status, Status::kBadRegion);
  EXPECT_EQ(out[2].status, Status::kPeerLost);
  transport_.release(out[0].handle);
  for (int i = 0; i < 200; ++i) {  // handles come back
    transport_.pull(std::span(pulls).first(1));
    ASSERT_EQ(transport_.pulled(out), 1u);
    ASSERT_EQ(out[0].status, Status::kOk);
    transport_.release(out[0].handle);
  }
}

TEST_F(PortTest, RangesAreCheckedWithoutOverflow) {
  EXPECT_TRUE(transport_.covers(range(0, 10'000)));
  EXPECT_TRUE(transport_.covers(range(10'000, 0)));
  EXPECT_FALSE(transport_.covers(range(1, 10'000)));
  EXPECT_FALSE(transport_.covers(range(UINT64_MAX, 2)));
  EXPECT_FALSE(transport_.covers(Range{kPeer, kRegion + 1, 0, 1}));
  EXPECT_FALSE(transport_.covers(Range{kPeer, 0, 0, 0})) << "region 0 is none";
  EXPECT_FALSE(transport_.covers(Range{kPeer + 1, kRegion, 0, 1}));
  EXPECT_TRUE(transport_.remove_region(kPeer, kRegion));
  EXPECT_FALSE(transport_.covers(range(0, 1)));
  EXPECT_TRUE(transport_.remove_region(kPeer, kRegion)) << "again";
  EXPECT_TRUE(transport_.remove_region(kPeer + 1, kRegion)) << "of a peer that other shards serve";
}

// A peer chooses the number, and every shard has a table for each session.
TEST_F(PortTest, ARegionsNumberCostsNoMemory) {
  const std::size_t before = ::mallinfo2().uordblks;
  transport_.add_region(kPeer, 8192, region_.data(), region_.size());
  transport_.add_region(kPeer, 1U << 20, region_.data(), region_.size());
  EXPECT_LT(::mallinfo2().uordblks, before + 1024);
  EXPECT_TRUE(transport_.covers({kPeer, 8192, 0, 10'000}));
  EXPECT_FALSE(transport_.covers({kPeer, 8191, 0, 1}));
}

TEST_F(PortTest, ARegionStaysWhileAViewOfItIsOut) {
  const Pulled first = pull(range(0, 50));
  const Pulled second = pull(range(100, 50));
  EXPECT_FALSE(transport_.remove_region(kPeer, kRegion));
  EXPECT_FALSE(transport_.covers(range(0, 1))) << "no more of it is given out";
  EXPECT_EQ(pull(range(0, 50)).status, Status::kBadRegion);
  Landing landing{range(0, 8), nullptr};
  transport_.locate({&landing, 1});
  EXPECT_EQ(landing.direct, nullptr) << "nor is anything stored there";
  transport_.release(first.handle);
  EXPECT_FALSE(transport_.remove_region(kPeer, kRegion));
  transport_.release(second.handle);
  EXPECT_TRUE(transport_.remove_region(kPeer, kRegion));
}

TEST_F(PortTest, ViewsOfOthersHoldNoRegion) {
  std::vector<std::byte> other(100);
  transport_.add_region(kPeer, kRegion + 1, other.data(), other.size());
  pull({kPeer, kRegion + 1, 0, 50});
  EXPECT_TRUE(transport_.remove_region(kPeer, kRegion));
  EXPECT_FALSE(transport_.remove_region(kPeer, kRegion + 1));
}

// A view that is out when its session ends comes back when another one has the session's number.
TEST_F(PortTest, AViewOfTheSessionBeforeIsNotCountedForTheNext) {
  const Pulled before = pull(range(0, 50));
  transport_.detach(kPeer);
  attach();
  const Pulled now = pull(range(0, 50));
  transport_.release(before.handle);
  EXPECT_FALSE(transport_.remove_region(kPeer, kRegion));
  transport_.release(now.handle);
  EXPECT_TRUE(transport_.remove_region(kPeer, kRegion));
}

TEST_F(PortTest, ResultsAreStoredStraightIntoTheRegion) {
  Landing landings[] = {{range(64, 8), nullptr}, {range(9'999, 8), nullptr}};
  transport_.locate(landings);
  EXPECT_EQ(landings[0].direct, region_.data() + 64);
  EXPECT_EQ(landings[1].direct, nullptr);
  const Push pushes[] = {{landings[0], nullptr, 1}, {landings[1], nullptr, 2}};
  transport_.push(pushes);
  std::vector<Pushed> out(4);
  ASSERT_EQ(transport_.pushed(out), 2u);
  EXPECT_EQ(out[0].status, Status::kOk);
  EXPECT_EQ(out[1].status, Status::kBadRegion);
}

TEST_F(PortTest, AFencedSessionIsNotStoredTo) {
  const Peer peers[] = {kPeer};
  EXPECT_EQ(transport_.begin_access(peers), kNoPeer);
  EXPECT_EQ(segment_.block(0).storing.load(), 1u);
  transport_.end_access(peers);
  EXPECT_EQ(segment_.block(0).storing.load(), 0u);
  segment_.header().fence.store(1);
  EXPECT_EQ(transport_.begin_access(peers), kPeer);
  EXPECT_EQ(segment_.block(0).storing.load(), 0u) << "the client waits for this word";
  const Peer unknown[] = {kPeer + 1};
  EXPECT_EQ(transport_.begin_access(unknown), kPeer + 1);
}

TEST_F(PortTest, APeerThatTakesItsMemoryAwayIsNamedAndLost) {
  survive_memory_faults();
  const UniqueFd file(::memfd_create("no seals", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), kPage), 0);
  const Mapping mapping = Mapping::shared(file.get(), kPage, false);
  const FaultGuard guard({mapping.data(), kPage}, faulted_);
  transport_.add_region(kPeer, kRegion + 1, mapping.data(), kPage);
  const Peer peers[] = {kPeer};
  ASSERT_EQ(transport_.begin_access(peers), kNoPeer);
  EXPECT_EQ(transport_.end_access(peers), kNoPeer);
  ASSERT_EQ(transport_.begin_access(peers), kNoPeer);
  ASSERT_EQ(::ftruncate(file.get(), 0), 0);
  mapping.data()[0] = std::byte{1};
  EXPECT_EQ(transport_.end_access(peers), kPeer);
  EXPECT_FALSE(transport_.covers(range(0, 1))) << "no longer served";
  EXPECT_EQ(lost(), std::vector<Peer>{kPeer});
}

TEST_F(PortTest, AFaultOfAnotherShardLosesThePeerHereToo) {
  faulted_ = 1;
  EXPECT_EQ(lost(), std::vector<Peer>{kPeer});
  EXPECT_EQ(transport_.why_lost(kPeer), "it removed memory that the node has mapped");
  EXPECT_TRUE(lost().empty());
}

TEST_F(PortTest, CompletionsRingOnlyForAClientThatSleeps) {
  const Message messages[] = {{kPeer, message(1)}};
  transport_.complete(messages);
  EXPECT_FALSE(readable(bell_.get()));
  fall_asleep(segment_.block(0).client_sleeps);
  transport_.complete(messages);
  EXPECT_TRUE(readable(bell_.get()));
  std::vector<RingEntry> out(4);
  EXPECT_EQ(completions_.pop(out), 2u);
}

TEST_F(PortTest, AFullCompletionRingEndsTheSession) {
  const Message messages[] = {{kPeer, message(1)}};
  for (std::uint32_t i = 0; i < geometry_.entries(); ++i) transport_.complete(messages);
  EXPECT_TRUE(lost().empty());
  transport_.complete(messages);
  EXPECT_EQ(lost(), std::vector<Peer>{kPeer});
  EXPECT_EQ(transport_.why_lost(kPeer), "it does not take its completions");
  EXPECT_TRUE(lost().empty()) << "once";
  EXPECT_FALSE(transport_.covers(range(0, 1))) << "no longer served";
}

TEST_F(PortTest, ALyingRingEndsTheSession) {
  segment_.block(0).notices.tail.store(geometry_.entries() + 1);
  std::vector<Received> out(4);
  EXPECT_EQ(transport_.receive(out), 0u);
  EXPECT_EQ(lost(), std::vector<Peer>{kPeer});
  EXPECT_EQ(transport_.why_lost(kPeer), "it broke the ring of its notices");
}

TEST_F(PortTest, DeathIsSeenAtTheSocket) {
  EXPECT_TRUE(lost().empty());
  bell_.reset();
  EXPECT_TRUE(readable(transport_.fd())) << "and wakes a sleeper";
  EXPECT_EQ(lost(), std::vector<Peer>{kPeer});
  EXPECT_EQ(transport_.why_lost(kPeer), "it closed its socket, as at the end of its process");
  EXPECT_FALSE(readable(transport_.fd())) << "and does not wake it for ever";
}

TEST_F(PortTest, NothingIsSleptThrough) {
  EXPECT_TRUE(transport_.arm());
  EXPECT_EQ(segment_.block(0).shard_sleeps.load(), 1u);
  ASSERT_TRUE(notices_.push(message(1)));
  EXPECT_TRUE(ring_needed(segment_.block(0).shard_sleeps));
  EXPECT_FALSE(ring_needed(segment_.block(0).shard_sleeps)) << "one bell is enough";
  EXPECT_FALSE(transport_.arm()) << "there is something already";
  transport_.disarm();
  EXPECT_FALSE(ring_needed(segment_.block(0).shard_sleeps));
  ASSERT_EQ(::send(bell_.get(), "x", 1, 0), 1);
  EXPECT_TRUE(readable(transport_.fd()));
  EXPECT_TRUE(lost().empty());
  EXPECT_FALSE(readable(transport_.fd())) << "the doorbell was taken";
}

TEST_F(PortTest, AKeptDuplicateOfTheDoorbellWakesNobodyAfterDetach) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const UniqueFd ours(pair[0]), duplicate(::dup(pair[1]));
  transport_.attach(kPeer + 1, segment_, 0, UniqueFd(pair[1]), faulted_);
  transport_.detach(kPeer + 1);
  ASSERT_EQ(::send(ours.get(), "x", 1, 0), 1);
  EXPECT_FALSE(readable(transport_.fd()));
}

TEST_F(PortTest, ADetachedPeerIsForgotten) {
  transport_.detach(kPeer);
  EXPECT_FALSE(transport_.covers(range(0, 1)));
  EXPECT_TRUE(readable(bell_.get())) << "it learns so at the socket";
  EXPECT_TRUE(transport_.arm());
  transport_.disarm();
}

}  // namespace
}  // namespace tally::transport::shm
