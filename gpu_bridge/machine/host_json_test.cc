// The file of a machine: what it gives, and what its errors say.
#include "gpu_bridge/machine/host_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "base/lp/lp.h"

namespace tally::host {
namespace {

const std::string machine_file = R"({"fmt":"tally-host/1","name":"box",
 "numa":[{"name":"cpu0","sum":1e11,"peer":1e10},{"name":"cpu1"}],
 "sockets":[{"between":["cpu0","cpu1"],"speed":37.5e9}],
 "switches":[{"name":"p0","under":"cpu0","speed":13.125e9}],
 "gpus":[{"name":"gpu0","under":"p0","up":12e9,"down":13e9},{"name":"gpu1","under":"cpu1","speed":13e9}],
 "nics":[{"name":"nic0","under":"p0","speed":13e9}],
 "nvswitches":[{"name":"nvs"}],
 "nvlinks":[{"between":["gpu0","gpu1"],"forward":25e9,"back":20e9},{"between":["gpu0","nvs"],"speed":1e11}],
 "ports":[{"nic":"nic0","out":12.5e9,"in":12e9}]})";

Result<std::string> no_file(const std::string& path) {
  return invalid(path + ": cannot be read");
}

Result<Host> read(std::string text) {
  return read_host(text, no_file);
}

// The text with the first `old` replaced.
std::string with(const std::string& old, const std::string& put, std::string text = machine_file) {
  const auto at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), put);
}

double speed(const Host& host, const char* from, const char* to) {
  for (const Link& link : host.links) {
    if (link.from == host.find(from) && link.to == host.find(to)) return link.speed;
  }
  return 0;
}

TEST(HostFile, GivesTheMachine) {
  const auto host = read(machine_file);
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(host->name, "box");
  EXPECT_EQ(host->all(Kind::kGpu).size(), 2u);
  EXPECT_EQ(host->vertices[host->find("cpu0")].sum, 1e11);
  EXPECT_EQ(host->vertices[host->find("cpu0")].peer, 1e10);
  EXPECT_EQ(host->vertices[host->find("gpu0")].under, host->find("p0"));
  EXPECT_EQ(speed(*host, "gpu0", "p0"), 12e9);
  EXPECT_EQ(speed(*host, "p0", "gpu0"), 13e9);
  EXPECT_EQ(speed(*host, "gpu0", "gpu1"), 25e9);
  EXPECT_EQ(speed(*host, "gpu1", "gpu0"), 20e9);
  EXPECT_EQ(speed(*host, "network", "nic0"), 12e9);
  EXPECT_EQ(speed(*host, "cpu1", "cpu0"), 37.5e9);
  const Routes routes(*host);
  EXPECT_EQ(routes.pcie(host->find("gpu0"), host->find("cpu1")).size(), 3u);
  EXPECT_TRUE(routes.has_nvlink(host->find("gpu0"), host->find("gpu1")));
}

TEST(HostFile, ANoteNamesTheLibraryThatTheBuildLacks) {
  const auto host = read(machine_file);
  ASSERT_TRUE(host.ok()) << host.error().message;
  ASSERT_EQ(host->notes.size(), lp::is_available() ? 0u : 1u);
  if (lp::is_available()) return;
  EXPECT_NE(host->notes[0].find("coinor-libclp-dev"), std::string::npos);
}

TEST(HostFile, ErrorsNameThePlaceTheValueAndTheRemedy) {
  const struct {
    const char *old, *put, *message;
  } kCases[] = {
      {"37.5e9", "-1", "sockets[0].speed = -1: must be bytes per second, 1 to 1e15"},
      {"37.5e9", "\"fast\"",
       "sockets[0].speed = \"fast\": must be a number of bytes per second, like 12.5e9"},
      {"\"up\":12e9,", "", "gpus[0].up: missing; must be given"},
      {"\"up\":12e9,", "\"up\":12e9,\"speed\":1e9,",
       "gpus[0] = \"gpu0\": must be given either \"speed\", or \"up\" and \"down\""},
      {"\"under\":\"p0\",\"up\"", "\"under\":\"p9\",\"up\"",
       "gpus[0].under = \"p9\": must be the name of a NUMA node or of a switch above it in the "
       "file"},
      {"\"gpu1\",\"under\"", "\"gpu0\",\"under\"",
       "gpus[1].name = \"gpu0\": must be a name that nothing else of the machine has, and not "
       "empty"},
      {"[\"gpu0\",\"gpu1\"]", "[\"gpu0\",\"cpu0\"]",
       "nvlinks[0].between[1] = \"cpu0\": must be the name of one of the GPUs or NVSwitches"},
      {"[\"cpu0\",\"cpu1\"]", "[\"cpu0\",\"p0\"]",
       "sockets[0].between[1] = \"p0\": must be the name of one of the NUMA nodes"},
      {"\"nic\":\"nic0\"", "\"nic\":\"gpu0\"",
       "ports[0].nic = \"gpu0\": must be the name of one of the NICs"},
      {"[\"gpu0\",\"gpu1\"]", "[\"gpu0\"]",
       "nvlinks[0].between = [\"gpu0\"]: must be a list of the names of two GPUs or NVSwitches"},
      {"[\"gpu0\",\"nvs\"]", "[\"gpu1\",\"gpu0\"]",
       "nvlinks[1].between = [\"gpu1\",\"gpu0\"]: must be a pair that is not given before; add up "
       "the speeds of "
       "its links"},
      {"\"nics\":[", "\"nic\":[",
       "\"nic\": not known here; must be one of \"fmt\", \"name\", \"numa\", \"sockets\", "
       "\"switches\", "
       "\"gpus\", \"nics\", \"nvswitches\", \"nvlinks\", \"ports\""},
      {"tally-host/1", "gsplan/1", "fmt = \"gsplan/1\": must be \"tally-host/1\""},
      {"\"sockets\":[{\"between\":[\"cpu0\",\"cpu1\"],\"speed\":37.5e9}],", "",
       "NUMA node \"cpu1\" is not joined to NUMA node \"cpu0\"; add the missing link"},
      {"\"ports\":[{", "\"ports\":[{\"nic\":\"nic0\",\"speed\":1e9},{",
       "ports[1].nic = \"nic0\": must be a NIC whose port is not given before"},
  };
  for (const auto& one : kCases) {
    const auto host = read(with(one.old, one.put));
    ASSERT_FALSE(host.ok()) << one.message;
    EXPECT_EQ(host.error().message, one.message);
  }
}

// Bytes between NUMA nodes do not go out of one NIC and in by another.
TEST(HostFile, TheNetworkDoesNotJoinNumaNodes) {
  std::string text = with("\"sockets\":[{\"between\":[\"cpu0\",\"cpu1\"],\"speed\":37.5e9}],", "");
  text =
      with("\"nics\":[", "\"nics\":[{\"name\":\"nic1\",\"under\":\"cpu1\",\"speed\":1e9},", text);
  text = with("\"ports\":[", "\"ports\":[{\"nic\":\"nic1\",\"speed\":1e9},", text);
  const auto host = read(text);
  ASSERT_FALSE(host.ok());
  EXPECT_EQ(host.error().message,
            "NUMA node \"cpu1\" is not joined to NUMA node \"cpu0\"; add the missing link");
}

// The NVSwitches of a machine count as one, so such a link would join nothing.
TEST(HostFile, ALinkBetweenNvswitchesIsAnError) {
  std::string text = with("{\"name\":\"nvs\"}", "{\"name\":\"nvs\"},{\"name\":\"nvs1\"}");
  text = with("[\"gpu0\",\"nvs\"]", "[\"nvs1\",\"nvs\"]", text);
  const auto host = read(text);
  ASSERT_FALSE(host.ok());
  EXPECT_EQ(host.error().message,
            "nvlinks[1].between = [\"nvs1\",\"nvs\"]: must be two GPUs, or a GPU and an NVSwitch");
}

TEST(HostFile, AMachineNeedsAGpuAndANic) {
  EXPECT_EQ(read(R"({"fmt":"tally-host/1"})").error().message,
            "the machine has no NUMA node; add one to \"numa\"");
  EXPECT_EQ(read(R"({"fmt":"tally-host/1","numa":[{"name":"a"}]})").error().message,
            "the machine has no GPU; add one to \"gpus\"");
  EXPECT_EQ(read(R"({"fmt":"tally-machines/1","machines":[]})").error().message,
            "fmt = \"tally-machines/1\": must be \"tally-host/1\"");
  EXPECT_EQ(read(R"({"fmt":"tally-host/1","hwloc":"a.xml"})").error().message,
            "hwloc: a.xml: cannot be read");
}

TEST(HostFile, NumbersAndNamesThatPlannersCannotUseAreErrors) {
  const struct {
    const char *old, *put, *message;
  } kCases[] = {
      {"37.5e9", "NaN", "not JSON: "},
      {"37.5e9", "1e999", "not JSON: "},
      {"37.5e9", "1e16", "sockets[0].speed = 1e+16: must be bytes per second, 1 to 1e15"},
      {"37.5e9", "0.1", "sockets[0].speed = 0.1: must be bytes per second, 1 to 1e15"},
      {"\"sum\":1e11", "\"sum\":0", "numa[0].sum = 0: must be bytes per second, 1 to 1e15"},
      {"\"sum\":1e11", "\"sum\":1,\"sum\":2", "\"sum\": given twice in one object; leave one out"},
      {"\"p0\",\"under\":\"cpu0\"", "\"p0\",\"under\":\"p0\"",
       "switches[0].under = \"p0\": must be the name of a NUMA node or of a switch above it in the "
       "file"},
      {"{\"name\":\"gpu1\",", "{", "gpus[1].name: missing; must be given"},
      {"\"nvs\"}", "\"network\"}",
       "nvswitches[0].name = \"network\": must be a name that nothing else of the machine has, and "
       "not empty"},
  };
  for (const auto& one : kCases) {
    const auto host = read(with(one.old, one.put));
    ASSERT_FALSE(host.ok()) << one.message;
    EXPECT_TRUE(host.error().message.starts_with(one.message)) << host.error().message;
  }
}

TEST(HostFile, DamagedFilesAreErrors) {
  std::mt19937 random(1);
  for (std::size_t i = 0; i < machine_file.size(); ++i) {
    EXPECT_FALSE(read(machine_file.substr(0, i)).ok());
    std::string text = machine_file;
    text[i] = static_cast<char>(random() % 256);
    const auto host = read(text);
    EXPECT_TRUE(host.ok() || !host.error().message.empty());
  }
}

}  // namespace
}  // namespace tally::host
