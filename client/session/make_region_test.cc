// What becomes of memory as a caller describes it, over transports with and without an adapter.
#include "client/session/make_region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <vector>

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
    auto made = make_region(verbs_, given_, making_);
    if (made) return std::move(made).value();
    ADD_FAILURE() << made.error().message;
    return nullptr;
  }
  // In words.
  void refused(Status status, const char* why) { refused(verbs_, status, why); }
  void refused(const MemoryNeeds& connection, Status status, const char* why) {
    const auto made = make_region(connection, given_, making_);
    EXPECT_EQ(made.status(), status);
    if (made) return;
    EXPECT_THAT(made.error().message, HasSubstr(why));
  }

  std::string logged_;
  Outcome room_ = Unit{};
  std::vector<std::uint64_t> asked_;
  const RegionMaking making_{[this](const std::string& text) { logged_ = text; },
                             [this](std::uint64_t bytes) {
                               asked_.push_back(bytes);
                               return room_;
                             }};
  const MemoryNeeds verbs_{"verbs", false, true}, shm_{"shm", true, false};
  alignas(
      4096) std::array<std::byte, 4096> memory_{};  // a page, so that its alignment is no chance
  ibv_mr registration_{};
  tally_memory given_{};
};

TEST_F(MakeRegion, ARegistrationWithoutDataBecomesAWholeRegion) {
  registered();
  const auto region = make();
  EXPECT_EQ(region->registration(), &registration_);
  EXPECT_EQ(region->data(), memory_.data());
  EXPECT_EQ(region->address(), reinterpret_cast<std::uintptr_t>(memory_.data()));
  EXPECT_EQ(region->bytes(), 4096U);
  EXPECT_TRUE(region->host_accessible());
}

TEST_F(MakeRegion, ARegionMayBeAPieceOfARegistration) {
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

TEST_F(MakeRegion, IovaIsTheAddressOfTheMemory) {
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

TEST_F(MakeRegion, ADmabufIsForTheAdapterAlone) {
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
  refused(Status::kInvalidArgument, "bytes 0: must be 1 to 140737488355328");
}

TEST_F(MakeRegion, RefusesRegistrationsAndDmabufsForOtherTransports) {
  registered();
  refused(shm_, Status::kUnsupported, "ibv_mr needs transport verbs, and this session has shm");
  given_.ibv_mr = nullptr;
  dmabuf();
  refused(shm_, Status::kUnsupported,
          "TALLY_MEMORY_DMABUF needs transport verbs, and this session has shm");
}

TEST_F(MakeRegion, RefusesContradictoryDescriptions) {
  registered().flags = TALLY_REGION_STAGE;
  refused(Status::kInvalidArgument, "TALLY_REGION_STAGE");
  given_.flags = 2;
  refused(Status::kInvalidArgument, "memory flags 0x2: must be 0 or 1");
  given_ = {};
  refused(Status::kInvalidArgument, "bytes 0: must be 1 to");
  given_.bytes = 16;
  refused(Status::kInvalidArgument, "data is NULL");
  given_.data = memory_.data();
  given_.iova = 1;
  refused(Status::kInvalidArgument, "iova 0x1: must be 0");
}

TEST_F(MakeRegion, LeavesMemoryOfCudaDevicesToOthers) {
  given_.kind = TALLY_MEMORY_CUDA;
  given_.data = memory_.data();
  given_.bytes = memory_.size();
  EXPECT_EQ(make(), nullptr);
}

// Nothing is populated for a region that the node would refuse.
TEST_F(MakeRegion, ANodeIsAskedForRoomWhereTheLibraryPopulatesMemory) {
  given_.data = memory_.data();
  given_.bytes = memory_.size();
  room_ = Error{Status::kRefused, "no room for it"};
  refused(shm_, Status::kRefused, "no room for it");
  EXPECT_EQ(asked_, std::vector<std::uint64_t>{4096});
  EXPECT_EQ(logged_, "");
  EXPECT_EQ(allocate_region(8192, making_).status(), Status::kRefused);
  EXPECT_EQ(asked_.back(), 8192U);
  EXPECT_EQ(allocate_region(0, making_).status(), Status::kInvalidArgument);
  EXPECT_EQ(asked_.size(), 2U);
  EXPECT_NE(make(), nullptr) << "an adapter reaches it where it is";
  EXPECT_EQ(asked_.size(), 2U);
  room_ = Unit{};
  given_.data = memory_.data() + 64;  // no page, so the client cannot adopt it
  given_.bytes = memory_.size() - 64;
  EXPECT_TRUE(make_region(shm_, given_, making_).ok());
  EXPECT_THAT(logged_, HasSubstr("is staged (copied at post and completion): "));
}

TEST_F(MakeRegion, ReadOnlyMemoryIsForContributionsAlone) {
  const Mapping constant(::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                         4096);
  given_.data = constant.data();
  given_.bytes = 4096;
  for (const MemoryNeeds& needs : {shm_, verbs_}) {
    const auto made = make_region(needs, given_, making_);
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_FALSE((*made)->writable());
  }
  given_.data = memory_.data();
  EXPECT_TRUE(make()->writable());
}

TEST_F(MakeRegion, RefusesMemoryThatIsNotMapped) {
  given_.bytes = 4096;
  given_.data = reinterpret_cast<void*>(0x1000);
  for (const MemoryNeeds& needs : {shm_, verbs_}) {
    refused(needs, Status::kInvalidArgument,
            "memory of 4096 bytes at 0x1000 cannot be registered: it is not mapped at 0x1000");
  }
  EXPECT_TRUE(asked_.empty());
}

}  // namespace
}  // namespace tally::client
