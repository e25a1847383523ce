// Which device, port and GID is chosen, and what is said when none can be.
#include "dataplane/transport/verbs/device.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/system/fd.h"
#include "tests/support/transport/fake_verbs.h"

namespace tally::transport::verbs {
namespace {

using ::testing::HasSubstr;

FakeVerbs::Gid ipv6(std::uint8_t first, std::uint8_t second) {
  FakeVerbs::Gid made;
  made.gid.raw[0] = first;
  made.gid.raw[1] = second;
  made.gid.raw[15] = 1;
  return made;
}

std::string chosen(FakeVerbs& api, const DeviceOptions& options) {
  auto device = Device::open(api, options);
  return device ? (*device)->choice().why : device.error().message;
}

TEST(VerbsDevice, TakesTheDeviceThatHasTheAddress) {
  FakeVerbs api({{.name = "mlx5_0", .gids = {FakeVerbs::ipv4(1)}},
                 {.name = "mlx5_1", .gids = {ipv6(0xfe, 0x80), FakeVerbs::ipv4(2)}}});
  EXPECT_EQ(chosen(api, {.device = {}, .host = "10.0.0.2"}),
            "mlx5_1 port 1, GID 1 (10.0.0.2, RoCE v2), MTU 4096: it has the address of the control "
            "connection");
  EXPECT_THAT(chosen(api, {.device = {}, .host = "10.9.9.9"}), HasSubstr("mlx5_0 port 1, GID 0"));
  EXPECT_EQ(api.objects(), 0U);
}

TEST(VerbsDevice, PrefersAddressesThatAreRouted) {
  FakeVerbs api({{.name = "a",
                  .gids = {FakeVerbs::ipv4(1, IBV_GID_TYPE_ROCE_V1), ipv6(0xfe, 0x80),
                           ipv6(0xfd, 0), FakeVerbs::ipv4(3)}}});
  EXPECT_THAT(chosen(api, {}), HasSubstr("GID 3 (10.0.0.3, RoCE v2)"));
  FakeVerbs six({{.name = "a", .gids = {ipv6(0xfe, 0x80), ipv6(0xfd, 0)}}});
  EXPECT_THAT(chosen(six, {}), HasSubstr("GID 1 (fd00::1, RoCE v2)"));
  EXPECT_THAT(chosen(six, {.device = {}, .host = "fd00::1"}), HasSubstr("address of the control"));
}

TEST(VerbsDevice, ItsMtuIsThePortsOrLess) {
  FakeVerbs api({{.name = "a", .mtu = IBV_MTU_2048}});
  EXPECT_THAT(chosen(api, {}), HasSubstr("MTU 2048: "));
  EXPECT_THAT(chosen(api, {.mtu = 1024}), HasSubstr("MTU 1024 of 2048: "));
  EXPECT_THAT(chosen(api, {.mtu = 4096}), HasSubstr("MTU 2048: "));
  EXPECT_THAT(chosen(api, {.mtu = 256}), HasSubstr("MTU 256 of 2048: "));
}

TEST(VerbsDevice, InfiniBandNeedsNoAddress) {
  FakeVerbs api({{.name = "ib0",
                  .gids = {{.gid = {}, .type = IBV_GID_TYPE_IB}},
                  .link_layer = IBV_LINK_LAYER_INFINIBAND}});
  EXPECT_THAT(chosen(api, {}), HasSubstr("ib0 port 1, GID 0 (::, InfiniBand)"));
}

TEST(VerbsDevice, TakesTheChosenDevice) {
  FakeVerbs api({{.name = "a", .gids = {FakeVerbs::ipv4(1), ipv6(0xfe, 0x80)}},
                 {.name = "b", .gids = {FakeVerbs::ipv4(2)}}});
  EXPECT_THAT(chosen(api, {.device = "b", .host = "10.0.0.1"}), HasSubstr("b port 1, GID 0"));
  EXPECT_THAT(chosen(api, {.device = "a:1:1", .host = {}}),
              HasSubstr("a port 1, GID 1 (fe80::1, RoCE v2), MTU 4096: as asked for"));
  EXPECT_EQ(chosen(api, {.device = "c", .host = {}}),
            "no RDMA device to use: there is no c, but a, b");
  EXPECT_EQ(chosen(api, {.device = "a:2", .host = {}}),
            "no RDMA device to use: a has 1 ports, and no port 2");
  EXPECT_EQ(chosen(api, {.device = "a:1:7", .host = {}}),
            "no RDMA device to use: a port 1 has no GID 7");
  for (const char* wrong : {"a:", "a:0", "a:x", "a:1:", "a:1:300", "a:1:1:1", ":1"}) {
    EXPECT_THAT(chosen(api, {.device = wrong, .host = {}}), HasSubstr("is not NAME, NAME:PORT"))
        << wrong;
  }
}

TEST(VerbsDevice, NamesWhatEachDeviceLacks) {
  FakeVerbs none(std::vector<FakeVerbs::Setup>{});
  EXPECT_EQ(chosen(none, {}),
            "no RDMA device to use: this machine has none (rdma link shows them)");
  FakeVerbs api({{.name = "a", .gids = {}, .state = IBV_PORT_DOWN},
                 {.name = "b", .gids = {FakeVerbs::ipv4(1, IBV_GID_TYPE_ROCE_V1)}}});
  EXPECT_EQ(chosen(api, {}),
            "no RDMA device to use: a port 1 is not active (is its link up? see rdma link); b port "
            "1 has no GID of RoCE v2: give its interface an address");
  FakeVerbs cloud({{.name = "efa_0", .transport = IBV_TRANSPORT_UNSPECIFIED}});
  EXPECT_THAT(chosen(cloud, {}), HasSubstr("efa_0 is neither InfiniBand nor RoCE"));
  FakeVerbs closed;
  closed.fail(Call::kOpen, EACCES);
  EXPECT_THAT(chosen(closed, {}), HasSubstr("cannot be opened: Permission denied"));
}

TEST(VerbsDevice, WhatCannotBeMadeLeavesNothing) {
  FakeVerbs api;
  api.fail(Call::kProtectionDomain, ENOMEM);
  EXPECT_THAT(chosen(api, {}), HasSubstr("a protection domain on fake0: Cannot allocate memory"));
  EXPECT_EQ(api.objects(), 0U);

  auto device = Device::open(api, {}).value();
  std::array<std::byte, 4096> memory{};
  api.fail(Call::kRegister, ENOMEM);
  const auto refused = device->expose(memory.data(), memory.size(), kForTheNode);
  EXPECT_EQ(refused.status(), Status::kNoMemory);
  EXPECT_THAT(refused.error().message, HasSubstr("4 KiB of memory cannot be registered"));
  EXPECT_THAT(refused.error().message, HasSubstr("lock"));
  device.reset();
  EXPECT_EQ(api.objects(), 0U);
}

// A caller's device and protection domain.
struct Callers {
  explicit Callers(FakeVerbs& api, int device = 0) {
    int count = 0;
    ibv_device** list = api.get_device_list(&count);
    context = Context(api, api.open_device(list[device]));
    api.free_device_list(list);
    domain = ProtectionDomain(api, api.alloc_pd(context.get()));
  }
  DeviceOptions options(const std::string& name = "") const {
    return {.device = name, .host = {}, .domain = domain.get()};
  }
  Context context;
  ProtectionDomain domain;
};

TEST(VerbsDevice, UsesACallersDomainAndLeavesItAsItWas) {
  FakeVerbs api({{.name = "a"}, {.name = "b", .gids = {FakeVerbs::ipv4(2), FakeVerbs::ipv4(3)}}});
  const Callers callers(api, 1);
  const int events = callers.context->async_fd;
  ASSERT_EQ(::fcntl(events, F_SETFL, 0), 0);
  const std::size_t before = api.objects();
  {
    auto device = Device::open(api, callers.options()).value();
    EXPECT_EQ(&device->domain(), callers.domain.get());
    EXPECT_EQ(&device->context(), callers.context.get());
    EXPECT_THAT(device->choice().why, HasSubstr("b port 1, GID 0 (10.0.0.2, RoCE v2)"));
    EXPECT_EQ(device->event_fd(), -1);
    EXPECT_EQ(api.objects(), before);  // nothing is opened
    std::array<std::byte, 4096> memory{};
    const auto region = device->expose(memory.data(), memory.size(), kForTheNode);
    ASSERT_TRUE(region.ok());
    EXPECT_EQ(region.value()->pd, callers.domain.get());
  }
  EXPECT_EQ(api.objects(), before);  // and nothing closed
  EXPECT_EQ(::fcntl(events, F_GETFL) & O_NONBLOCK, 0);
}

TEST(VerbsDevice, TakesThePortAndTheGidOfACallersDevice) {
  FakeVerbs api({{.name = "a"}, {.name = "b", .gids = {FakeVerbs::ipv4(2), FakeVerbs::ipv4(3)}}});
  const Callers callers(api, 1);
  EXPECT_THAT(chosen(api, callers.options("b:1:1")), HasSubstr("GID 1 (10.0.0.3"));
  EXPECT_EQ(chosen(api, callers.options("b:1:7")),
            "the ibv_pd's device cannot be used: b port 1 has no GID 7");
  const auto other = Device::open(api, callers.options("a"));
  EXPECT_EQ(other.status(), Status::kInvalidArgument);
  EXPECT_EQ(
      other.error().message,
      "the ibv_pd is of device b, and transport verbs was asked for on a: name that device or "
      "none");
  FakeVerbs down({{.name = "c", .gids = {}, .state = IBV_PORT_DOWN}});
  EXPECT_THAT(chosen(down, Callers(down).options()), HasSubstr("c port 1 is not active"));
  FakeVerbs cloud({{.name = "efa_0", .transport = IBV_TRANSPORT_UNSPECIFIED}});
  EXPECT_THAT(chosen(cloud, Callers(cloud).options()), HasSubstr("neither InfiniBand nor RoCE"));
}

TEST(VerbsDevice, ImportsDmabufsWhereItCan) {
  FakeVerbs without;
  const auto refused =
      Device::open(without, {}).value()->expose_dmabuf(-1, 0, 4096, 0, kForTheNode);
  EXPECT_EQ(refused.status(), Status::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("fake0 does not import dma-bufs"));
  EXPECT_THAT(refused.error().message, HasSubstr("nvidia-peermem"));

  FakeVerbs api({{.name = "fake0", .dmabufs = true}});
  const UniqueFd memory(::memfd_create("dmabuf", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(memory.get(), 16384), 0);
  auto device = Device::open(api, {}).value();
  EXPECT_TRUE(device->expose_dmabuf(memory.get(), 4096, 8192, 1 << 20, kForTheNode).ok());
  // What is wrong with the dma-buf is not the device's lack.
  const auto none = device->expose_dmabuf(-1, 0, 4096, 0, kForTheNode);
  EXPECT_EQ(none.status(), Status::kInvalidArgument);
  EXPECT_EQ(
      none.error().message,
      "4096 bytes at 0 of the dma-buf with descriptor -1 cannot be registered with fake0: Bad "
      "file descriptor");
  api.fail(Call::kRegister, ENOMEM, 1);  // after the question
  const auto full = device->expose_dmabuf(memory.get(), 0, 4096, 0, kForTheNode);
  EXPECT_EQ(full.status(), Status::kNoMemory);
  device.reset();
  EXPECT_EQ(api.objects(), 0U);
}

}  // namespace
}  // namespace tally::transport::verbs
