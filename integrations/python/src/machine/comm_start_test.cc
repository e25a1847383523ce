#include "integrations/python/src/machine/comm_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tests/e2e/cuda/device.h"
#include "tests/support/cuda/cuda_process.h"

namespace tally::python {
namespace {

using namespace std::chrono_literals;

// A library whose ncclCommInitRank waits for the test.
std::atomic<bool> released{false};
std::atomic<int> aborted{0};
int the_comm = 0;  // its address is the communicator

nccl::Code init_rank(nccl::Comm* comm, int, nccl::UniqueId, int) {
  while (!released) std::this_thread::sleep_for(1ms);
  *comm = reinterpret_cast<nccl::Comm>(&the_comm);
  return nccl::Code::kSuccess;
}

nccl::Code abort_comm(nccl::Comm comm) {
  EXPECT_EQ(comm, reinterpret_cast<nccl::Comm>(&the_comm));
  ++aborted;
  return nccl::Code::kSuccess;
}

// A base, because a device must not exist before.
struct NewDevices {
  NewDevices() { test::cuda::reset(); }
};

class CommStarts : public ::testing::Test, NewDevices {
 protected:
  CommStarts() {
    released = false;
    aborted = 0;
    library_.comm_init_rank = init_rank;
    library_.comm_abort = abort_comm;
  }

  void await_abort() const {
    released = true;
    for (int i = 0; i < 10'000 && aborted == 0; ++i) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(aborted, 1);
  }

  nccl::Library library_;
  testing::DeviceThread thread_{**cuda::system_driver(), 0};
  const CommStart start_{.library = &library_,
                         .driver = &thread_.driver(),
                         .context = thread_.context(),
                         .ranks = 2,
                         .rank = 1};
};

TEST_F(CommStarts, GivesTheCommunicator) {
  released = true;
  const auto comm = start_comm(start_, 20s, {});
  ASSERT_TRUE(comm) << comm.error().message;
  EXPECT_EQ(*comm, reinterpret_cast<nccl::Comm>(&the_comm));
  EXPECT_EQ(aborted, 0);
}

TEST_F(CommStarts, EndsAtTheLimitAndAbortsWhatComesLater) {
  const auto comm = start_comm(start_, 50ms, {});
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().status, Status::kDeadline);
  EXPECT_THAT(comm.error().message, ::testing::HasSubstr("within 50 ms"));
  await_abort();
}

TEST_F(CommStarts, AnInterruptEndsTheWait) {
  EXPECT_THROW(
      static_cast<void>(start_comm(start_, 20s, [] { throw std::runtime_error("signal"); })),
      std::runtime_error);
  await_abort();
}

}  // namespace
}  // namespace tally::python
