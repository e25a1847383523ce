// The report of a plan.
#include "control/cli/plan/host_report.h"

#include <gtest/gtest.h>

#include "base/lp/lp.h"
#include "gpu_bridge/machine/host_json.h"

namespace tally::control {
namespace {

// Two GPUs with an NVLink, so that the plan has several strategies with names.
constexpr std::string_view kTwoGpus = R"({"fmt":"tally-host/1","name":"pair",
 "numa":[{"name":"cpu0"}],
 "gpus":[{"name":"gpu0","under":"cpu0","speed":1e10},{"name":"gpu1","under":"cpu0","speed":1e10}],
 "nics":[{"name":"eth2","under":"cpu0","speed":1e10}],
 "nvlinks":[{"between":["gpu0","gpu1"],"forward":5e10,"back":4e10}],
 "ports":[{"nic":"eth2","out":12.5e9,"in":12e9}]})";

class HostReport : public testing::Test {
 protected:
  // A plan of two strategies, of which the first is chosen. The test changes their costs.
  HostReport() {
    plan_.named = host::plan_host(routes_).named;
    plan_.named.resize(2);
    for (host::Strategy& strategy : plan_.named) strategy.cost = plan_.named[0].cost;
    plan_.named[0].name = "first";
    plan_.named[1].name = "second";
    plan_.divisions = 2;
    plan_.is_every_way = true;
  }

  static host::Host machine() {
    auto host = host::read_host(
        kTwoGpus, [](const std::string&) -> Result<std::string> { return invalid("no file"); });
    EXPECT_TRUE(host.ok()) << host.error().message;
    return *host;
  }

  std::string reason() {
    plan_.chosen = plan_.named[0];
    return host_report(routes_, plan_)["chosen"]["reason"];
  }

  const host::Host machine_ = machine();
  const host::Routes routes_{machine_};
  host::HostPlan plan_;
};

TEST_F(HostReport, TheReasonNamesWhatDecidesAmongEqualTimes) {
  const std::string fastest = "no other of 2 ways to divide the GPUs takes less time";
  host::Cost& second = plan_.named[1].cost;
  EXPECT_EQ(reason(), fastest) << "a strategy that costs the same decides nothing";
  second.moved *= 2;
  EXPECT_EQ(reason(), fastest +
                          ", and of those with the same time and as few copies it moves the fewest "
                          "bytes over links");
  second.copies *= 2;
  EXPECT_EQ(reason(), fastest +
                          ", and of those with the same time it has the fewest copies to "
                          "host memory");
  second.tau *= 2;
  EXPECT_EQ(reason(), fastest + "; \"second\" takes 2.00 times as long");
}

TEST_F(HostReport, TheReasonNamesTheWaysAndSharesThatWereCompared) {
  EXPECT_EQ(reason(), "no other of 2 ways to divide the GPUs takes less time");
  plan_.is_every_way = false;
  EXPECT_EQ(reason(), "no other of 2 usual ways to divide the GPUs takes less time");
  plan_.unsolved = 1;
  EXPECT_EQ(reason(),
            "no other of 2 usual ways to divide the GPUs takes less time (1 of them with "
            "equal shares, because the shares of the least time were not found)");
  plan_.unsolved = 2;
  EXPECT_EQ(reason(),
            "no other of 2 usual ways to divide the GPUs takes less time with equal shares");
  plan_.is_every_way = true;
  EXPECT_EQ(reason(), "no other of 2 ways to divide the GPUs takes less time with equal shares");
  plan_.divisions = 1;
  EXPECT_EQ(reason(), "there is one way to divide the GPUs");
}

TEST_F(HostReport, LinksAreOneLineForBothWaysWithTheNameOfTheirBus) {
  plan_.chosen = plan_.named[0];
  const auto report = host_report(routes_, plan_);
  EXPECT_EQ(report["links"][0]["kind"], "PCIe");
  const std::string text = render_host_report(report);
  const std::string after = lp::is_available() ? "\n" : "note: this build has no Clp";
  EXPECT_NE(text.find("\nNVLink gpu0 - gpu1, there 50 GB/s, back 40 GB/s\n"
                      "port eth2 - network, there 12.5 GB/s, back 12 GB/s\n" +
                      after),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tally::control
