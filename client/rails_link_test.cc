#include "client/rails_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "client/recording_link.h"

namespace tally::client {
namespace {

using nlohmann::json;

class RailsLinkTest : public ::testing::Test {
 protected:
  // Lanes 0 and 2 by the first NIC, 1 and 3 by the second.
  void SetUp() override {
    std::vector<RailLink> rails;
    rails.push_back({std::make_unique<RecordingLink>(false), {0, 2}});
    rails.push_back({std::make_unique<RecordingLink>(false), {3, 1}});
    first_ = static_cast<RecordingLink*>(rails[0].link.get());
    second_ = static_cast<RecordingLink*>(rails[1].link.get());
    second_->key = 9;
    link_ = RailsLink::make(std::move(rails)).value();
  }
  bool readable() const {
    pollfd source{link_->fd(), POLLIN, 0};
    return ::poll(&source, 1, 0) == 1;
  }

  std::unique_ptr<RailsLink> link_;
  RecordingLink* first_ = nullptr;
  RecordingLink* second_ = nullptr;
};

TEST_F(RailsLinkTest, ALaneHasItsNic) {
  EXPECT_EQ(link_->shards(), 4u);
  EXPECT_EQ(link_->transport(), "fabric");
  EXPECT_EQ(link_->eager_bytes(), 8192u);
  for (std::uint32_t lane = 0; lane < 4; ++lane) EXPECT_TRUE(link_->send(lane, {}, {}));
  ASSERT_EQ(first_->sent.size(), 2u);
  ASSERT_EQ(second_->sent.size(), 2u);
  EXPECT_EQ(first_->sent[1].first, 1u) << "lane 2 is its second";
  EXPECT_EQ(second_->sent[0].first, 1u) << "and lane 1 the other's";
  link_->receive(3, {});
  EXPECT_EQ(second_->received, 0u);
  EXPECT_EQ(first_->received, UINT32_MAX);
}

TEST_F(RailsLinkTest, ARegionHasAKeyForEachLane) {
  const auto region = Region::allocate(4096).value();
  const auto offer = link_->offer(*region);
  ASSERT_TRUE(offer.ok());
  EXPECT_EQ(offer->params, (json{{"key", 7}, {"keys", {7, 9, 7, 9}}}));
  link_->withdraw(*region);
  EXPECT_EQ(first_->offered, 0);
  EXPECT_EQ(second_->offered, 0);
}

TEST_F(RailsLinkTest, WhatOneNicCannotHaveNoneHas) {
  const auto region = Region::allocate(4096).value();
  second_->refuses = true;
  EXPECT_EQ(link_->offer(*region).status(), Status::kNoMemory);
  EXPECT_EQ(first_->offered, 0);
}

TEST_F(RailsLinkTest, OneNewsIsAllNews) {
  EXPECT_TRUE(link_->arm(kForever));
  EXPECT_FALSE(link_->hear());
  EXPECT_FALSE(readable());
  second_->armed = false;
  EXPECT_FALSE(link_->arm(kForever));
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(second_->event.get(), &one, sizeof one), 8);
  EXPECT_TRUE(readable());
  second_->gone = true;
  EXPECT_TRUE(link_->hear());
  second_->fenced = false;
  EXPECT_FALSE(link_->fence(kForever));
}

}  // namespace
}  // namespace tally::client
