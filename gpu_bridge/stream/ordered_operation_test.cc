#include "gpu_bridge/stream/ordered_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/cuda/process_fixture.h"

namespace tally::gpu {
namespace {

constexpr std::size_t kPartBytes = test::cuda::Pages::kBytes / 2;

// An operation of two parts in place, as the library gives it up before its input is in host
// memory.
class ReleasedOperation : public test::cuda::ProcessFixture {
 protected:
  ReleasedOperation()
      : pool_(WordPool::make(cu(), context_, 1).value()),
        streams_(CopyStreams::make(cu(), context_).value()),
        caller_(stream()),
        array_(memory(2 * kPartBytes)),
        operation_(OrderedOperation::make(cu(), context_, *pool_, 0, true).value()) {
    add(pages_);
    std::fill_n(test::cuda::host_view(array_), 2 * kPartBytes, kInput);
  }

  std::array<PartCopies, 2> parts(bool has_result) {
    std::array<PartCopies, 2> parts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].in = parts[i].out = array_ + i * kPartBytes;
      parts[i].in_host = pages_.data() + i * kPartBytes;
      parts[i].out_host = parts[i].in_host;
      parts[i].in_bytes = kPartBytes;
      parts[i].out_bytes = has_result ? kPartBytes : 0;
    }
    return parts;
  }

  // The copies to the host are held up. Everything else goes on as far as it can.
  void release(bool has_result) {
    ok(test::cuda::launch(streams_.down.get(), inputs_.kernel()));
    ASSERT_TRUE(operation_->enqueue(streams_, caller_, parts(has_result)));
    operation_->release_streams();
    const auto deadline = test::cuda::soon();
    while (!awaits_input() && !caller_has_ended() && test::cuda::Clock::now() < deadline) {
      std::this_thread::yield();
    }
  }

  bool caller_has_ended() const { return cu().stream_query(caller_) == cuda::Code::kSuccess; }
  bool awaits_input() const {
    const std::string word = fmt::format("{:#x}", pool_->device_address((*pool_)[0].down));
    const auto waiting = test::cuda::waiting();
    return std::any_of(waiting.begin(), waiting.end(), [&](const test::cuda::Waiting& one) {
      return one.stream == streams_.up.get() && one.on.find(word) != std::string::npos;
    });
  }

  static constexpr std::byte kInput{7};
  test::cuda::Pages pages_;
  std::unique_ptr<WordPool> pool_;
  CopyStreams streams_;
  cuda::Stream caller_;
  cuda::Pointer array_;
  std::unique_ptr<OrderedOperation> operation_;
  test::cuda::Gate inputs_;
};

TEST_F(ReleasedOperation, CopiesNoResultWhileItsInputIsCopiedToTheSameMemory) {
  release(true);
  EXPECT_FALSE(caller_has_ended());
  EXPECT_FALSE(operation_->landed());
  EXPECT_EQ(*test::cuda::host_view(array_), kInput);
  inputs_.open();
  ok(cu().stream_synchronize(caller_));
  EXPECT_EQ(operation_->down(), 2U);
  EXPECT_TRUE(operation_->landed());
  EXPECT_TRUE(std::all_of(test::cuda::host_view(array_),
                          test::cuda::host_view(array_) + 2 * kPartBytes,
                          [](std::byte byte) { return byte == kInput; }));
}

// The caller may free the memory of the device next.
TEST_F(ReleasedOperation, WithoutResultHoldsTheStreamUpUntilItsInputIsCopied) {
  release(false);
  EXPECT_FALSE(caller_has_ended());
  inputs_.open();
  ok(cu().stream_synchronize(caller_));
  EXPECT_EQ(operation_->down(), 2U);
}

}  // namespace
}  // namespace tally::gpu
