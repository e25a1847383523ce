// Memory of clients is mapped and unmapped beside the control thread, in turns.
#include "control/node/regions/client_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <asio/executor_work_guard.hpp>
#include <chrono>
#include <semaphore>

namespace tally::control {
namespace {

namespace shm = transport::shm;
constexpr std::size_t kMiB = 1 << 20;

// Populating waits for the test, where a region is larger than one slice.
class ClientMemoryTest : public ::testing::Test {
 protected:
  ClientMemoryTest() {
    MemoryCalls calls;
    calls.map = [](int, std::size_t bytes) -> Result<Mapping> { return anonymous(bytes); };
    calls.populate = [this](std::span<std::byte> part) {
      if (part.size() > kMiB) may_go_on_.acquire();
      ++populated_;
    };
    calls.depopulate = [this](std::span<std::byte>) { ++depopulated_; };
    memory_.emplace(io_, std::move(calls));
  }
  ~ClientMemoryTest() override { may_go_on_.release(1000); }

  static Mapping anonymous(std::size_t bytes) {
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return {address, bytes};
  }
  struct Asked {
    std::shared_ptr<ClientMemory::Request> request = std::make_shared<ClientMemory::Request>();
    bool done = false;
  };
  std::shared_ptr<Asked> map(std::uint64_t owner, std::size_t bytes) {
    auto asked = std::make_shared<Asked>();
    asked->request->bytes = bytes;
    asked->request->faulted = &faulted_;
    memory_->map(owner, asked->request, [asked](const Outcome&) { asked->done = true; });
    return asked;
  }
  template <typename Condition>
  bool until(const Condition& condition) {
    const auto guard = asio::make_work_guard(io_);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition() && std::chrono::steady_clock::now() < end) {
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(1));
    }
    return condition();
  }

  asio::io_context io_;
  shm::FaultWord faulted_{0};
  std::counting_semaphore<> may_go_on_{0};
  std::atomic<int> populated_ = 0, depopulated_ = 0;
  std::optional<ClientMemory> memory_;
};

TEST_F(ClientMemoryTest, ASmallRegionWaitsForOneSliceOfALargeOne) {
  const auto large = map(1, 32'768 * kMiB);
  const auto small = map(2, kMiB);
  may_go_on_.release(1);
  EXPECT_TRUE(until([&] { return small->done; }));
  EXPECT_FALSE(large->done);
  EXPECT_LE(populated_, 2);
  large->request->given_up = true;
  may_go_on_.release(2);
  EXPECT_TRUE(until([&] { return large->done; }));
  EXPECT_LE(populated_, 4) << "what nobody wants is not populated to its end";
}

TEST_F(ClientMemoryTest, UnmappingIsInSlicesAndReportsWhenTheMemoryIsGone) {
  const auto asked = map(1, 100 * kMiB);
  may_go_on_.release(4);
  ASSERT_TRUE(until([&] { return asked->done; }));
  EXPECT_EQ(populated_, 4);
  std::vector<PeerMemory> memory;
  memory.push_back(std::move(asked->request->memory));
  std::byte* const address = memory[0].mapping.data();
  bool gone = false;
  memory_->unmap(1, std::move(memory), [&] { gone = true; });
  ASSERT_TRUE(until([&] { return gone; }));
  EXPECT_EQ(depopulated_, 4);
  EXPECT_EQ(::msync(address, 4096, MS_ASYNC), -1) << "nothing is mapped there";
}

TEST_F(ClientMemoryTest, TheEndOfASmallRegionDoesNotWaitForThatOfALargeOne) {
  std::binary_semaphore freed{0};
  MemoryCalls slow;
  slow.map = [](int, std::size_t bytes) -> Result<Mapping> { return anonymous(bytes); };
  slow.populate = [](std::span<std::byte>) {};
  slow.depopulate = [&](std::span<std::byte> part) {
    if (part.size() > kMiB) freed.acquire(), freed.release();
  };
  memory_.emplace(io_, std::move(slow));
  std::array<bool, 2> gone{};
  const auto unmap = [&](std::size_t bytes, bool& over) {
    const auto asked = map(bytes, bytes);
    EXPECT_TRUE(until([&] { return asked->done; }));
    std::vector<PeerMemory> memory;
    memory.push_back(std::move(asked->request->memory));
    memory_->unmap(bytes, std::move(memory), [&over] { over = true; });
  };
  unmap(100 * kMiB, gone[0]);
  unmap(kMiB, gone[1]);
  EXPECT_TRUE(until([&] { return gone[1]; }));
  EXPECT_FALSE(gone[0]);
  freed.release();
  EXPECT_TRUE(until([&] { return gone[0]; }));
}

TEST_F(ClientMemoryTest, AFailedMappingReportsItsReason) {
  MemoryCalls refusing;
  refusing.map = [](int, std::size_t) -> Result<Mapping> { return invalid("no memfd"); };
  ClientMemory memory(io_, std::move(refusing));
  const auto request = std::make_shared<ClientMemory::Request>();
  bool done = false;
  memory.map(1, request, [&](const Outcome&) { done = true; });
  ASSERT_TRUE(until([&] { return done; }));
  EXPECT_EQ(request->outcome.error().message, "no memfd");
  EXPECT_FALSE(request->memory.mapping);
}

}  // namespace
}  // namespace tally::control
