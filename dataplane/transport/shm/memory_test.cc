#include "dataplane/transport/shm/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace tally::transport::shm {
namespace {

UniqueFd memfd(std::size_t bytes, int seals, bool populate = true) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  if (populate) {
    EXPECT_EQ(::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)), 0);
  }
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(SharedMemory, BothSidesSeeTheSameBytes) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{5} << 20}) {
    auto made = make_shared("test", bytes);
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->mapping.size() % 4096, 0u);
    EXPECT_EQ(made->mapping.data()[bytes - 1], std::byte{0});
    auto peer = map_peer(made->fd.get(), bytes, "region");
    ASSERT_TRUE(peer.ok()) << peer.error().message;
    made->mapping.data()[bytes - 1] = std::byte{42};
    EXPECT_EQ(peer->data()[bytes - 1], std::byte{42});
    EXPECT_NE(::ftruncate(made->fd.get(), 0), 0) << "it can no longer be cut off";
  }
}

TEST(SharedMemory, MoreThanThereIsIsRefusedWithTheNumbersBeforeAnyOfItIsTaken) {
  const auto made = make_shared("test", std::size_t{1} << 44);
  ASSERT_EQ(made.status(), Status::kNoMemory);
  EXPECT_NE(made.error().message.find("shared memory of 17592186044416 bytes: "),
            std::string::npos);
  EXPECT_NE(made.error().message.find(" bytes free"), std::string::npos) << made.error().message;
  for (const std::size_t bytes : {std::size_t{0}, (std::size_t{1} << 47) + 1, SIZE_MAX}) {
    EXPECT_EQ(make_shared("test", bytes).status(), Status::kInvalidArgument);
  }
}

// Bytes of the mapping at `data` that are mapped by huge pages.
std::size_t huge_bytes(const std::byte* data) {
  std::ifstream maps("/proc/self/smaps");
  const std::string start = fmt::format("{:x}-", reinterpret_cast<std::uintptr_t>(data));
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    found = found || line.starts_with(start);
    std::size_t kib = 0;
    if (found && std::sscanf(line.c_str(), "ShmemPmdMapped: %zu kB", &kib) == 1) return kib << 10;
  }
  return 0;
}

TEST(SharedMemory, BothSidesMapHugePagesWhereTheKernelGivesThem) {
  const char* setting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  std::string given;
  std::getline(std::ifstream(setting), given);
  if (given.find("[always]") == std::string::npos && given.find("[advise]") == std::string::npos) {
    GTEST_SKIP() << "no huge pages for shared memory here: " << setting << " is " << given;
  }
  auto made = make_shared("test", 8 << 20);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(huge_bytes(made->mapping.data()), 8u << 20);
  auto peer = map_peer(made->fd.get(), 8 << 20, "region");
  ASSERT_TRUE(peer.ok()) << peer.error().message;
  populate({peer->data(), peer->size()});
  EXPECT_EQ(huge_bytes(peer->data()), 8u << 20);
}

TEST(SharedMemory, APeersMemfdIsChecked) {
  constexpr int kGood = F_SEAL_SHRINK | F_SEAL_SEAL;
  EXPECT_TRUE(map_peer(memfd(8192, kGood).get(), 8192, "x").ok());
  const auto shrinkable = map_peer(memfd(8192, F_SEAL_SEAL).get(), 8192, "region 4");
  ASSERT_FALSE(shrinkable.ok());
  EXPECT_NE(shrinkable.error().message.find("F_SEAL_SHRINK"), std::string::npos);
  EXPECT_FALSE(map_peer(memfd(8192, F_SEAL_SHRINK).get(), 8192, "x").ok()) << "not final";
  const auto shorter = map_peer(memfd(4096, kGood).get(), 8192, "region 4");
  ASSERT_FALSE(shorter.ok());
  EXPECT_EQ(shorter.error().message, "region 4: 8192 bytes announced, the memfd has 4096");
  const auto sparse = map_peer(memfd(8192, kGood, false).get(), 8192, "region 4");
  ASSERT_FALSE(sparse.ok());
  EXPECT_EQ(sparse.error().message,
            "region 4: 0 of 8192 bytes are populated; write to all of it first");
  UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(map_peer(file.get(), 1, "x").status(), Status::kInvalidArgument) << "no memfd";
  EXPECT_FALSE(map_peer(-1, 1, "x").ok());
}

}  // namespace
}  // namespace tally::transport::shm
