// Jobs for which there is no memory, at every allocation that adding one takes.
#include <gtest/gtest.h>

#include "tests/support/failing_new.h"
#include "tests/support/protocol/aggregator_fixture.h"

namespace tally::protocol {
namespace {

class NoMemoryForJob : public AggregatorTest {
 protected:
  // False: there was no memory for it.
  bool add(JobId id) {
    try {
      aggregator_->add_job(id, JobSpec{.epoch = 1, .ranks = 5, .weight = 2, .credit = kCredit});
      testing::fail_allocation(0);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  void expect_served() {
    for (std::uint16_t rank = 0; rank < kRanks; ++rank) announce(rank, notice(round_));
    EXPECT_GT(move_all(), 0);
    const auto ended = take();
    ASSERT_EQ(ended.size(), kRanks);
    for (const auto& one : ended) EXPECT_EQ(one.completion.status, Status::kOk);
    ++round_;
  }

  std::uint32_t round_ = 0;
};

TEST_F(NoMemoryForJob, IsNotThereAndTheOthersAreServed) {
  std::size_t refused = 0;
  while (true) {
    testing::fail_allocation(refused + 1);
    if (add(40)) break;
    ++refused;
    aggregator_->remove_job(40);  // as its owner does after the refusal
    aggregator_->gone(40, 0, Status::kPeerLeft, 0);
    expect_served();
  }
  EXPECT_GT(refused, 10U) << "a job takes as many allocations";
  aggregator_->join(40, 0, 10);
  expect_served();
  aggregator_->remove_job(40);
}

}  // namespace
}  // namespace tally::protocol
