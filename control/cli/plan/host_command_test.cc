// tallyctl plan explain-host, from its command line to what it prints.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/lp/lp.h"
#include "control/cli/plan/plan_command.h"
#include "tests/support/control/plan_words.h"
#include "tests/support/net/rpc_test_support.h"

namespace tally::control {
namespace {

// The example of docs/planning.md.
constexpr const char* kExampleHost = R"({"fmt":"tally-host/1","name":"gpu1",
 "numa":[{"name":"cpu0","peer":1e10},{"name":"cpu1","peer":1e10}],
 "sockets":[{"between":["cpu0","cpu1"],"speed":37.5e9}],
 "switches":[{"name":"p0","under":"cpu0","speed":13.1e9},{"name":"p1","under":"cpu1","speed":13.1e9}],
 "gpus":[
  {"name":"gpu0","under":"p0","speed":13.1e9},{"name":"gpu1","under":"p0","speed":13.1e9},
  {"name":"gpu2","under":"p1","speed":13.1e9},{"name":"gpu3","under":"p1","speed":13.1e9}],
 "nics":[{"name":"eth2","under":"cpu0","speed":13.1e9}],
 "ports":[{"nic":"eth2","speed":12.5e9}]})";

class ExplainHost : public testing::Test {
 protected:
  std::string file(const std::string& text, const std::string& name = "host.json") {
    std::string path = directory_ / name;
    std::ofstream(path) << text;
    return path;
  }

  static PlanAnswer answer(const std::string& path, bool as_json = false) {
    PlanArguments arguments;
    if (auto refused = read_plan_words({"explain-host", path}, arguments)) return *refused;
    return answer_plan(arguments, as_json);
  }

  rpc::TemporaryDirectory directory_;
};

TEST_F(ExplainHost, PrintsTheMachineItsStrategiesAndTheChoice) {
  if (!lp::is_available()) GTEST_SKIP() << "without Clp the shares are equal";
  const PlanAnswer shown = answer(file(kExampleHost));
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(shown.err, "");
  EXPECT_EQ(shown.out,
            "machine \"gpu1\"\n"
            "NUMA node cpu0, passes 10 GB/s from GPU to GPU\n"
            "  switch p0, 13.1 GB/s\n"
            "    GPU gpu0, 13.1 GB/s\n"
            "    GPU gpu1, 13.1 GB/s\n"
            "  NIC eth2, 13.1 GB/s\n"
            "NUMA node cpu1, passes 10 GB/s from GPU to GPU\n"
            "  switch p1, 13.1 GB/s\n"
            "    GPU gpu2, 13.1 GB/s\n"
            "    GPU gpu3, 13.1 GB/s\n"
            "sockets cpu0 - cpu1, 37.5 GB/s\n"
            "port eth2 - network, 12.5 GB/s\n"
            "\n"
            "strategy                     ms/GB  copies  bottleneck\n"
            "none                         152.7       4  p0 -> cpu0 (PCIe)\n"
            "CPU-assisted                 114.5       4  gpu0 -> p0 (PCIe)\n"
            "reduce-scatter               300.0       4  copies from GPU to GPU through cpu0\n"
            "reduce                       300.0       1  copies from GPU to GPU through cpu0\n"
            "reduce-scatter, best shares  300.0       1  copies from GPU to GPU through cpu0\n"
            "\n"
            "chosen: CPU-assisted: no other of 15 ways to divide the GPUs takes less time; "
            "\"none\" takes 1.33 times as long\n"
            "groups: gpu0 gpu1 (equal shares) | gpu2 gpu3 (equal shares)\n"
            "114.5 ms per GB; gpu0 -> p0 (PCIe) is the bottleneck\n"
            "GPU   share  host memory  NIC\n"
            "gpu0  50.0%  cpu0         eth2\n"
            "gpu1  50.0%  cpu0         eth2\n"
            "gpu2  50.0%  cpu0         eth2\n"
            "gpu3  50.0%  cpu0         eth2\n"
            "load                    speed      bytes/byte    busy\n"
            "gpu0 -> p0 (PCIe)       13.1 GB/s  1.5000      100.0%\n"
            "p0 -> gpu0 (PCIe)       13.1 GB/s  1.5000      100.0%\n"
            "gpu1 -> p0 (PCIe)       13.1 GB/s  1.5000      100.0%\n"
            "p0 -> gpu1 (PCIe)       13.1 GB/s  1.5000      100.0%\n"
            "gpu2 -> p1 (PCIe)       13.1 GB/s  1.5000      100.0%\n"
            "p1 -> gpu2 (PCIe)       13.1 GB/s  1.5000      100.0%\n"
            "gpu3 -> p1 (PCIe)       13.1 GB/s  1.5000      100.0%\n"
            "p1 -> gpu3 (PCIe)       13.1 GB/s  1.5000      100.0%\n"
            "eth2 -> network (port)  12.5 GB/s  1.0000       69.9%\n"
            "network -> eth2 (port)  12.5 GB/s  1.0000       69.9%\n"
            "p0 -> cpu0 (PCIe)       13.1 GB/s  1.0000       66.7%\n"
            "cpu0 -> p0 (PCIe)       13.1 GB/s  1.0000       66.7%\n"
            "p1 -> cpu1 (PCIe)       13.1 GB/s  1.0000       66.7%\n"
            "cpu1 -> p1 (PCIe)       13.1 GB/s  1.0000       66.7%\n"
            "eth2 -> cpu0 (PCIe)     13.1 GB/s  1.0000       66.7%\n"
            "cpu0 -> eth2 (PCIe)     13.1 GB/s  1.0000       66.7%\n"
            "cpu0 -> cpu1 (sockets)  37.5 GB/s  1.0000       23.3%\n"
            "cpu1 -> cpu0 (sockets)  37.5 GB/s  1.0000       23.3%\n");
}

TEST_F(ExplainHost, AsJson) {
  if (!lp::is_available()) GTEST_SKIP() << "without Clp the shares are equal";
  const PlanAnswer shown = answer(file(kExampleHost), true);
  ASSERT_EQ(shown.status, 0) << shown.err;
  const auto report = nlohmann::json::parse(shown.out, nullptr, false);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["divisions"], 15);
  EXPECT_EQ(report["every_division"], true);
  EXPECT_EQ(report["chosen"]["name"], "CPU-assisted");
  // A GPU's link: 2 (l-1)/l + 1/l with l = 2.
  EXPECT_NEAR(report["chosen"]["seconds_per_gb"].get<double>(), 1.5 / 13.1, 1e-9);
  EXPECT_EQ(report["chosen"]["groups"].size(), 2u);
  EXPECT_EQ(report["chosen"]["groups"][0]["even"], true);
  EXPECT_EQ(report["chosen"]["groups"][0]["shares"][0]["memory"], "cpu0");
  EXPECT_NEAR(report["chosen"]["loads"][0]["busy"].get<double>(), 1, 1e-9);
}

TEST_F(ExplainHost, ReadsTheXmlThatTheFileNamesFromItsFolder) {
  const PlanAnswer shown = answer(file(R"({"fmt":"tally-host/1","hwloc":"box.xml"})"));
  EXPECT_EQ(shown.status, 2);
  EXPECT_NE(
      shown.err.find("hwloc: " + (directory_ / "box.xml") +
                     ": cannot be read: No such file or directory; give a file that `lstopo --of "
                     "xml` wrote"),
      std::string::npos)
      << shown.err;
}

TEST_F(ExplainHost, RefusesDamagedFilesWithPlaceAndRemedy) {
  std::string text = kExampleHost;
  text.replace(text.find("13.1e9"), 6, "-1");
  const std::string path = file(text);
  const PlanAnswer shown = answer(path);
  EXPECT_EQ(shown.status, 2);
  EXPECT_EQ(shown.out, "");
  EXPECT_EQ(shown.err, "tallyctl: " + path +
                           ": switches[0].speed = -1: must be bytes per second, 1 to 1e15\n");
  EXPECT_EQ(answer(file("{")).status, 2);
  EXPECT_EQ(answer(file("<topology>", "a.xml")).status, 2);
  EXPECT_EQ(answer("/nowhere/host.json").status, 2);
}

TEST_F(ExplainHost, NamesWithControlCharactersDoNotReachTheTerminal) {
  std::string text = kExampleHost;
  text.replace(text.find("eth2"), 4, "eth\\u001b");
  text.replace(text.find("\"nic\":\"eth2"), 11, "\"nic\":\"eth\\u001b");
  const PlanAnswer shown = answer(file(text));
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(shown.out.find('\x1b'), std::string::npos);
}

TEST_F(ExplainHost, RefusalsWithControlCharactersDoNotReachTheTerminal) {
  std::string text = kExampleHost;
  for (std::size_t at = 0; (at = text.find("cpu1", at)) != std::string::npos;) {
    text.replace(at, 4, "cpu\\u001b");
  }
  const std::size_t sockets = text.find(" \"sockets\"");
  text.erase(sockets, text.find('\n', sockets) - sockets);
  const std::string path = file(text);
  const PlanAnswer shown = answer(path);
  EXPECT_EQ(shown.status, 2);
  EXPECT_EQ(shown.err, "tallyctl: " + path +
                           ": NUMA node \"cpu?\" is not joined to NUMA node \"cpu0\"; add the "
                           "missing link\n");
}

}  // namespace
}  // namespace tally::control
