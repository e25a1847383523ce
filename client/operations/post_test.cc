// What a rank may announce of its buffers.
#include "client/operations/post.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace tally::client {
namespace {

using ::testing::HasSubstr;

class PostTest : public ::testing::Test {
 protected:
  // Of 4-byte elements, all of them in and out.
  Outcome all(Region* in, Region* out, bool checksums = false) {
    post_.in = in;
    post_.out = out;
    post_.notice.tag = 5;
    return check(post_, {{0, 16}, {0, 16}}, checksums);
  }

  Post post_;
  std::array<std::byte, 64> memory_{};
  std::unique_ptr<Region> host_ = Region::borrow(memory_.data(), memory_.size());
  ibv_mr* registration_ = reinterpret_cast<ibv_mr*>(memory_.data());  // never looked into
  std::unique_ptr<Region> device_ = Region::registered(*registration_, nullptr, 64, 0x1000);
};

TEST_F(PostTest, BuffersMustBeThereAndFit) {
  EXPECT_TRUE(all(host_.get(), host_.get()).ok());
  EXPECT_EQ(all(nullptr, host_.get()).error().message,
            "tag 5: in.region is NULL, and this rank needs 64 bytes there: give a region");
  EXPECT_EQ(all(host_.get(), nullptr).status(), Status::kInvalidArgument);
  post_.notice.out_offset = 4;
  EXPECT_EQ(all(device_.get(), host_.get()).status(), Status::kBadRegion);
}

TEST_F(PostTest, ReadOnlyMemoryReceivesNothing) {
  host_->make_read_only();
  const auto refused = all(device_.get(), host_.get());
  EXPECT_EQ(refused.status(), Status::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("tag 5: the out region, of 64 bytes at 0x"));
  EXPECT_TRUE(all(host_.get(), device_.get()).ok()) << "it contributes";
  post_.out = host_.get();
  EXPECT_TRUE(check(post_, {{0, 16}, {0, 0}}, false).ok()) << "of a rank that receives nothing";
}

TEST_F(PostTest, OverlapsAreElementOnElement) {
  EXPECT_TRUE(overlap({.notice = {}, .in = host_.get(), .out = host_.get()}, {{0, 8}, {0, 8}}));
  EXPECT_FALSE(overlap({.notice = {}, .in = host_.get(), .out = device_.get()}, {{0, 8}, {0, 8}}));
  post_.in = post_.out = host_.get();
  post_.notice.out_offset = 4;
  const auto shifted = check(post_, {{0, 8}, {0, 8}}, false);
  EXPECT_EQ(shifted.status(), Status::kInvalidArgument);
  EXPECT_THAT(shifted.error().message, HasSubstr("overlap"));
}

TEST_F(PostTest, NoChecksumsAreMadeOfMemoryThatTheCpuMayNotRead) {
  EXPECT_FALSE(device_->host_accessible());
  EXPECT_TRUE(all(device_.get(), device_.get()).ok());
  EXPECT_TRUE(all(host_.get(), device_.get(), true).ok());
  const auto refused = all(device_.get(), host_.get(), true);
  EXPECT_EQ(refused.status(), Status::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("tag 5: the in region is memory of a device"));
  post_.in = device_.get();
  post_.out = host_.get();
  EXPECT_TRUE(check(post_, {{0, 0}, {0, 16}}, true).ok());  // it contributes nothing
}

}  // namespace
}  // namespace tally::client
