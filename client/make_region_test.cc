// What becomes of memory as a caller describes it, over transports with and without an adapter.
#include "client/make_region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "dataplane/transport/verbs/api.h"

namespace tally::client {
namespace {

using ::testing::HasSubstr;

class MakeRegion : public ::testing::Test {
 protected:
  MakeRegion() {
    registration_.addr = memory_.data();
    registration_.length = memory_.size();
    given_.size = sizeof given_;
  }
  tally_memory& registered() {
    given_.ibv_mr = &registration_;
    return given_;
  }
  tally_memory& dmabuf() {
    given_.kind = TALLY_MEMORY_DMABUF;
    given_.bytes = 8192;
    given_.fd = 0;  // any descriptor: nobody looks into it here
    return given_;
  }
  std::unique_ptr<Region> make() {
    auto made = make_region(verbs_, given_, [](const std::string&) {});
    if (made) return std::move(made).value();
    ADD_FAILURE() << made.error().message;
    return nullptr;
  }
  // In words.
  void refused(Status status, const char* why) { refused(verbs_, status, why); }
  void refused(const MemoryNeeds& link, Status status, const char* why) {
    const auto made = make_region(link, given_, [](const std::string&) {});
    EXPECT_EQ(made.status(), status);
    if (made) return;
    EXPECT_THAT(made.error().message, HasSubstr(why));
  }

  const MemoryNeeds verbs_{"verbs", false, true}, shm_{"shm", true, false};
  alignas(64) std::array<std::byte, 4096> memory_{};
  ibv_mr registration_{};
  tally_memory given_{};
};

TEST_F(MakeRegion, OfARegistrationIsAllOfIt) {
  registered();
  const auto region = make();
  EXPECT_EQ(region->registration(), &registration_);
  EXPECT_EQ(region->data(), memory_.data());
  EXPECT_EQ(region->address(), reinterpret_cast<std::uintptr_t>(memory_.data()));
  EXPECT_EQ(region->bytes(), 4096U);
  EXPECT_TRUE(region->host_accessible());
}

TEST_F(MakeRegion, OrAPieceOfIt) {
  registered().data = memory_.data() + 96;
  given_.bytes = 4000;
  EXPECT_EQ(make()->data(), memory_.data() + 96);
  EXPECT_EQ(make()->bytes(), 4000U);
  given_.bytes = 0;
  EXPECT_EQ(make()->bytes(), 4000U);  // to the end
  given_.bytes = 4001;
  refused(Status::kInvalidArgument, "memory of 4001 bytes");
  refused(Status::kInvalidArgument, "does not lie in the ibv_mr, which has 4096 bytes at 0x");
  given_.bytes = 1;
  for (std::byte* outside : {memory_.data() - 1, memory_.data() + 4096}) {
    given_.data = outside;
    refused(Status::kInvalidArgument, "does not lie in the ibv_mr");
  }
}

TEST_F(MakeRegion, WhatIsAddressedOtherwiseSaysHow) {
  registered().iova = 0x7000'0000;
  EXPECT_EQ(make()->address(), 0x7000'0000U);
  EXPECT_EQ(make()->data(), memory_.data());
  given_.data = memory_.data() + 64;
  EXPECT_EQ(make()->address(), 0x7000'0040U);
}

// As ibv_reg_dmabuf_mr leaves it: its addr is an offset.
TEST_F(MakeRegion, ARegistrationOfADeviceHasNoDataForTheCpu) {
  for (const tally_memory_kind kind : {TALLY_MEMORY_CUDA, TALLY_MEMORY_DMABUF}) {
    registered().kind = kind;
    registration_.addr = nullptr;
    given_.iova = 0x7000'0000;
    const auto region = make();
    EXPECT_FALSE(region->host_accessible());
    EXPECT_EQ(region->data(), nullptr);
    EXPECT_EQ(region->address(), 0x7000'0000U);
    EXPECT_EQ(region->copy_in(0, 4096) + region->copy_out(0, 4096), 0U);
    EXPECT_EQ(region->move().status(), Status::kUnsupported);
  }
}

TEST_F(MakeRegion, OfADmabufIsForTheAdapterAlone) {
  dmabuf().iova = 0x5000'0064;
  given_.fd_offset = 4096 + 0x64;
  const auto region = make();
  EXPECT_FALSE(region->host_accessible());
  EXPECT_EQ(region->data(), nullptr);
  EXPECT_EQ(region->address(), 0x5000'0064U);
  EXPECT_EQ(region->base_offset(), 4096U + 0x64);
  EXPECT_NE(region->fd(), given_.fd);  // the caller may close its own
  EXPECT_EQ(region->copy_in(0, 8192) + region->copy_out(0, 8192), 0U);
  EXPECT_EQ(region->move().status(), Status::kUnsupported);

  given_.data = reinterpret_cast<void*>(0x6000'0064);  // a pointer of the device
  given_.iova = 0;
  EXPECT_EQ(make()->address(), 0x6000'0064U);
  given_.fd_offset = 0;
  refused(Status::kInvalidArgument,
          "fd_offset 0 and address 0x60000064 must lie at the same place");
  given_.data = nullptr;
  EXPECT_EQ(make()->address(), 0U);
  given_.fd = -1;
  refused(Status::kInvalidArgument, "fd -1: Bad file descriptor");
  given_.bytes = 0;
  refused(Status::kInvalidArgument, "bytes is 0");
}

TEST_F(MakeRegion, OtherTransportsHaveNoUseForThem) {
  registered();
  refused(shm_, Status::kUnsupported, "ibv_mr needs transport verbs, and this session has shm");
  given_.ibv_mr = nullptr;
  dmabuf();
  refused(shm_, Status::kUnsupported,
          "TALLY_MEMORY_DMABUF needs transport verbs, and this session has shm");
}

TEST_F(MakeRegion, WhatContradictsItselfIsRefused) {
  registered().flags = TALLY_REGION_STAGE;
  refused(Status::kInvalidArgument, "TALLY_REGION_STAGE");
  given_.flags = 2;
  refused(Status::kInvalidArgument, "memory flags 0x2 are unknown");
  given_ = {};
  refused(Status::kInvalidArgument, "data is NULL or bytes is 0");
  given_.data = memory_.data();
  given_.bytes = 16;
  given_.iova = 1;
  refused(Status::kInvalidArgument, "iova goes with");
  given_.kind = TALLY_MEMORY_CUDA;
  refused(Status::kUnsupported, "TALLY_MEMORY_CUDA: this build has no GPU support");
}

}  // namespace
}  // namespace tally::client
