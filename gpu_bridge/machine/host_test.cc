// Which machines check() refuses, and the routes of those that it accepts.
#include "gpu_bridge/machine/host.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpu_bridge/machine/test_hosts.h"

namespace tally::host {
namespace {

std::string refusal_of(const Host& host) {
  const auto checked = check(host);
  return checked ? "" : checked.error().message;
}

// A NUMA node with a GPU and a NIC.
HostBuilder small_machine() {
  HostBuilder builder;
  builder.numa("cpu0");
  builder.device(Kind::kGpu, "gpu0", builder.host.find("cpu0"));
  builder.device(Kind::kNic, "nic0", builder.host.find("cpu0"));
  return builder;
}

TEST(HostCheck, RefusesMoreOfAKindThanTheBounds) {
  const struct {
    Kind kind;
    std::size_t most;
    const char* message;
  } kCases[] = {
      {Kind::kNuma, kMaxNumaNodes, "the machine has more than 32 NUMA nodes; leave some out"},
      {Kind::kSwitch, kMaxSwitches, "the machine has more than 256 switches; leave some out"},
      {Kind::kGpu, kMaxGpus, "the machine has more than 32 GPUs; leave some out"},
      {Kind::kNic, kMaxNics, "the machine has more than 32 NICs; leave some out"},
      {Kind::kNvswitch, 32, "the machine has more than 32 NVSwitches; leave some out"},
  };
  for (const auto& one : kCases) {
    HostBuilder builder = small_machine();
    const VertexId cpu = builder.host.find("cpu0");
    for (std::size_t i = builder.host.all(one.kind).size(); i <= one.most; ++i) {
      EXPECT_EQ(refusal_of(builder.host), "");
      const std::string name = fmt::format("another{}", i);
      if (one.kind == Kind::kNvswitch) {
        builder.nvswitch(name);
      } else if (one.kind == Kind::kNuma) {
        builder.join(builder.numa(name), cpu, Bus::kSocket, kSocketsSpeed);
      } else {
        builder.device(one.kind, name, cpu);
      }
    }
    EXPECT_EQ(refusal_of(builder.host), one.message);
  }
}

TEST(HostCheck, RefusesDevicesThatAreNotBelowANumaNode) {
  const auto expect_refused = [](HostBuilder builder, VertexId under) {
    builder.device(Kind::kGpu, "gpu1", under);
    EXPECT_EQ(refusal_of(builder.host),
              "GPU \"gpu1\" is below no NUMA node; name one, or a switch that is");
  };
  HostBuilder builder = small_machine();
  expect_refused(builder, builder.host.find("network"));
  expect_refused(builder, builder.host.find("gpu0"));
  expect_refused(builder, builder.nvswitch("nvs"));
  const auto circle = static_cast<VertexId>(builder.host.vertices.size());
  builder.host.vertices.push_back({Kind::kSwitch, "p0", circle});
  EXPECT_EQ(refusal_of(builder.host),
            "switch \"p0\" is below no NUMA node; name one, or a switch that is");
}

TEST(HostCheck, RefusesVerticesThatOnlyTheNetworkJoins) {
  HostBuilder builder = small_machine();
  const VertexId cpu1 = builder.numa("cpu1");
  for (const char* nic : {"nic0", "nic1"}) {
    if (builder.host.find(nic) == kNone) builder.device(Kind::kNic, nic, cpu1);
    builder.port(builder.host.find(nic), kNicSpeed);
  }
  EXPECT_EQ(refusal_of(builder.host),
            "NUMA node \"cpu1\" is not joined to NUMA node \"cpu0\"; add the missing link");
}

TEST(HostRoutes, NameTheBusOfEachLink) {
  HostBuilder builder = small_machine();
  builder.port(builder.host.find("nic0"), kNicSpeed);
  const Routes routes(builder.host);
  const auto name_of = [&](const char* from, const char* to) {
    const Route& route = routes.pcie(builder.host.find(from), builder.host.find(to));
    return route.size() == 1 ? routes.name(route[0]) : "";
  };
  EXPECT_EQ(name_of("gpu0", "cpu0"), "gpu0 -> cpu0 (PCIe)");
  EXPECT_EQ(name_of("network", "nic0"), "network -> nic0 (port)");
}

}  // namespace
}  // namespace tally::host
