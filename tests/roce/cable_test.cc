// The cable of tests, and queue pairs of the soft adapter over it.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>

#include "dataplane/transport/verbs/queue_pair.h"
#include "tests/support/roce/soft_adapter.h"

namespace tally::testing {
namespace {

namespace roce = transport::roce;
namespace verbs = transport::verbs;

constexpr int kFrames = 2000;

FrameBytes frame_to(const Station& from, const Station& to, std::uint32_t number) {
  roce::Packet packet;
  packet.route = {.source_mac = from.mac(),
                  .target_mac = to.mac(),
                  .source = from.address(),
                  .target = to.address(),
                  .traffic_class = roce::kEcnCapable};
  packet.opcode = roce::Opcode::kSendOnly;
  packet.psn = roce::Psn(number);
  const std::vector<std::byte> payload(100, std::byte{5});
  return write_frame(packet, payload);
}

// The numbers of the frames that arrive of kFrames.
std::vector<std::uint32_t> carried(Cable& cable) {
  const auto from = cable.plug_in();
  const auto to = cable.plug_in();
  std::vector<std::uint32_t> numbers;
  const auto take = [&](Nanos now) {
    while (const auto arrived = to->receive(now)) {
      numbers.push_back(arrived->packet.psn.number());
    }
  };
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    from->send(frame_to(*from, *to, i));
    take(monotonic_now());
  }
  take(INT64_MAX);
  return numbers;
}

TEST(RoceCable, CarriesFramesInOrderWithoutFaults) {
  Cable cable({});
  const auto numbers = carried(cable);
  ASSERT_EQ(numbers.size(), std::size_t{kFrames});
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST(RoceCable, LosesAndDoublesAsManyAsItCounts) {
  Cable cable({.seed = 3, .loss = 0.1, .twice = 0.1});
  const auto numbers = carried(cable);
  const CableCounters& seen = cable.counters();
  EXPECT_NEAR(static_cast<double>(seen.lost), 0.1 * kFrames, 60);
  EXPECT_NEAR(static_cast<double>(seen.doubled), 0.09 * kFrames, 60);
  EXPECT_EQ(numbers.size(), kFrames - seen.lost + seen.doubled);
}

TEST(RoceCable, SwappedFramesComeLate) {
  Cable cable({.seed = 3, .swap = 0.1});
  const auto numbers = carried(cable);
  EXPECT_EQ(numbers.size(), std::size_t{kFrames});
  EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST(RoceCable, ReceiversRefuseEveryDamagedFrame) {
  Cable cable({.seed = 3, .damage = 0.5});
  const auto numbers = carried(cable);
  EXPECT_GT(cable.counters().damaged, 0U);
  EXPECT_EQ(cable.counters().refused, cable.counters().damaged);
  EXPECT_EQ(numbers.size(), kFrames - cable.counters().damaged);
}

TEST(RoceCable, MarkedFramesAreIntact) {
  Cable cable({.seed = 3, .mark = 0.5});
  EXPECT_EQ(carried(cable).size(), kFrames);
  EXPECT_GT(cable.counters().marked, 0U);
  EXPECT_LT(cable.counters().marked, cable.counters().sent);
}

TEST(RoceCable, TheSeedDecidesTheFaults) {
  Cable first({.seed = 3, .loss = 0.1}), same({.seed = 3, .loss = 0.1}),
      other({.seed = 4, .loss = 0.1});
  const auto numbers = carried(first);
  EXPECT_EQ(carried(same), numbers);
  EXPECT_NE(carried(other), numbers);
}

TEST(RoceCable, RefusesFaultsThatItCannotRead) {
  EXPECT_EQ(parse_faults("seed=7,swap=0.5").swap, 0.5);
  for (const char* text : {"loss", "loss=", "loss=2", "loss=a", "lots=0.1"}) {
    EXPECT_THROW(parse_faults(text), std::invalid_argument) << text;
  }
}

TEST(RoceCable, RecordsEachFrameAsItWasSent) {
  char path[] = "/tmp/roce-recording-XXXXXX";
  ::close(::mkstemp(path));
  Cable cable({.seed = 3, .loss = 0.1, .twice = 0.1, .damage = 0.5},
              std::make_unique<Recording>(path));
  carried(cable);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  ::unlink(path);
  constexpr std::size_t kHeader = 24, kEach = 16;
  const auto all = std::as_bytes(std::span(bytes));
  std::uint32_t number = 0;
  for (std::size_t at = kHeader; at < all.size(); ++number) {
    std::uint32_t length = 0;
    ASSERT_LE(at + kEach, all.size());
    std::memcpy(&length, &all[at + 8], sizeof length);
    ASSERT_LE(at + kEach + length, all.size());
    const auto packet = read_frame(all.subspan(at + kEach, length));
    ASSERT_TRUE(packet) << number;
    EXPECT_EQ(packet->psn.number(), number);
    at += kEach + length;
  }
  EXPECT_EQ(number, std::uint32_t{kFrames});
  EXPECT_THROW(Recording("/none/roce"), std::system_error);
}

// -- the soft adapter ----------------------------------------------------------------------------

struct End {
  End(SoftAdapter& api, unsigned access) : device(verbs::Device::open(api, {}).value()) {
    queue = verbs::CompletionQueue(api, api.create_cq(&device->context(), 64, nullptr));
    pair = verbs::QueuePair::make(*device, *queue.get(), {16, 16}, 64, access).value();
    registered = device->expose(memory.data(), memory.size(), verbs::kForTheNode).value();
  }
  int post(ibv_wr_opcode opcode, const End& other, std::uint32_t key) {
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(memory.data()), 3000, registered->lkey};
    ibv_send_wr request{};
    request.wr_id = 17;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = opcode;
    request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(other.memory.data());
    request.wr.rdma.rkey = key;
    return pair.send(&request);
  }
  int post_receive() {
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(memory.data()), 4096, registered->lkey};
    ibv_recv_wr request{};
    request.wr_id = 18;
    request.sg_list = &piece;
    request.num_sge = 1;
    return pair.receive(&request);
  }
  // The next completion, within some seconds.
  ibv_wc next() {
    ibv_wc completion{};
    const Nanos end = monotonic_now() + 20 * kSecond;
    while (device->api().poll_cq(queue.get(), 1, &completion) == 0 && monotonic_now() < end) {
    }
    return completion;
  }

  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  std::unique_ptr<verbs::Device> device;
  verbs::CompletionQueue queue;
  verbs::MemoryRegion registered;
  verbs::QueuePair pair;
};

class SoftAdapterTest : public ::testing::Test {
 public:
  SoftAdapterTest() {
    EXPECT_TRUE(near.pair.connect(far.pair.address()));
    EXPECT_TRUE(far.pair.connect(near.pair.address()));
    std::fill(near.memory.begin(), near.memory.end(), std::byte{1});
    std::fill(far.memory.begin(), far.memory.end(), std::byte{2});
  }
  Cable cable{{.seed = 5, .loss = 0.05, .twice = 0.05, .swap = 0.05, .damage = 0.05}};
  SoftAdapter api{cable};
  End near{api, 0};
  End far{api, verbs::kNodesAccess};
};

TEST_F(SoftAdapterTest, WritesReadsAndSends) {
  ASSERT_EQ(near.post(IBV_WR_RDMA_WRITE, far, far.registered->rkey), 0);
  EXPECT_EQ(near.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(far.memory[2999], std::byte{1});
  EXPECT_EQ(far.memory[3000], std::byte{2});
  std::fill(far.memory.begin(), far.memory.end(), std::byte{3});
  ASSERT_EQ(near.post(IBV_WR_RDMA_READ, far, far.registered->rkey), 0);
  EXPECT_EQ(near.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(near.memory[2999], std::byte{3});
  EXPECT_EQ(near.memory[3000], std::byte{1});
  std::fill(near.memory.begin(), near.memory.end(), std::byte{4});
  ASSERT_EQ(far.post_receive(), 0);
  ASSERT_EQ(near.post(IBV_WR_SEND, far, 0), 0);
  const ibv_wc received = far.next();
  EXPECT_EQ(received.wr_id, 18U);
  EXPECT_EQ(received.byte_len, 3000U);
  EXPECT_EQ(far.memory[2999], std::byte{4});
  EXPECT_EQ(near.next().wr_id, 17U);
}

TEST_F(SoftAdapterTest, RefusesMemoryThatIsNotOpenToThePeer) {
  ASSERT_EQ(near.post(IBV_WR_RDMA_READ, far, far.registered->rkey + 1), 0);
  EXPECT_EQ(near.next().status, IBV_WC_REM_ACCESS_ERR);
  ASSERT_EQ(near.post(IBV_WR_RDMA_READ, far, far.registered->rkey), 0);
  EXPECT_EQ(near.next().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(SoftAdapterTest, APeerThatIsGoneExhaustsTheRetries) {
  ASSERT_TRUE(far.pair.end());
  ASSERT_EQ(near.post(IBV_WR_SEND, far, 0), 0);
  EXPECT_EQ(near.next().status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace tally::testing
