// Machines from hwloc's XML.
#include "gpu_bridge/machine/host_hwloc.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/lp/lp.h"
#include "gpu_bridge/machine/host_json.h"
#include "gpu_bridge/machine/host_nics.h"
#include "gpu_bridge/machine/planner.h"

namespace tally::host {
namespace {

// Packages of one core. Below each is a PCIe switch of two GPUs, and below the first switch the
// NICs, as hwloc exports them. The text has few line ends, because hwloc's own parser of XML wants
// them only at some places.
class Xml {
 public:
  std::string text(bool with_nvlinks) {
    std::string body;
    for (int i = 0; i < packages; ++i) body += package(i);
    const std::string all = fmt::format("0x{:08x}", (1 << packages) - 1);
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" "
        "allowed_cpuset=\"{0}\" "
        "allowed_nodeset=\"{0}\" {1}>{2}</object>{3}</topology>",
        all, sets(all), body, with_nvlinks ? nvlinks() : "");
  }

  int packages = 2;
  int gpus = 2;  // of a package
  int nics = 1;
  std::string speed = "15.753846";
  std::string nvlink_speed = "50000";  // MB/s, from the first GPU of a pair to the second
  std::string nvlink_back = "50000";

 private:
  std::string sets(const std::string& mask) {
    return fmt::format(
        "cpuset=\"{0}\" complete_cpuset=\"{0}\" nodeset=\"{0}\" complete_nodeset=\"{0}\" "
        "gp_index=\"{1}\"",
        mask, id_++);
  }

  std::string package(int i) {
    const std::string mask = fmt::format("0x{:08x}", 1 << i);
    std::string text = fmt::format("<object type=\"Package\" os_index=\"{}\" {}>", i, sets(mask));
    text += fmt::format("<object type=\"NUMANode\" os_index=\"{}\" {}/>", i, sets(mask));
    text += fmt::format(
        "<object type=\"Core\" os_index=\"{0}\" {1}><object type=\"PU\" os_index=\"{0}\" "
        "{2}/></object>",
        i, sets(mask), sets(mask));
    text += fmt::format(
        "<object type=\"Bridge\" gp_index=\"{}\" bridge_type=\"0-1\" depth=\"0\" "
        "bridge_pci=\"000{}:[00-09]\">",
        id_++, i);
    // A root port, the switch's upper end, and a port of the switch for each device.
    text += bridge(i, 0);
    text += bridge(i, 1);
    for (int gpu = 0; gpu < gpus; ++gpu) {
      text += bridge(i, 2 + gpu);
      gpus_.push_back(id_ + 1);
      text += device(i, 4 + gpu, "0302 [10de:20b0] [10de:1450] a1",
                     fmt::format("nvml{}", 2 * i + gpu), 1, "NVML") +
              "</object>";
    }
    for (int nic = 0; i == 0 && nic < nics; ++nic) {
      text += bridge(i, 6 + 2 * nic);
      text += device(i, 7 + 2 * nic, "0200 [15b3:1019] [15b3:0008] 00",
                     fmt::format("eth{}", 2 + nic), 2, "") +
              "</object>";
    }
    return text + "</object></object></object></object>";
  }

  std::string bridge(int domain, int bus) {
    return fmt::format(
        "<object type=\"Bridge\" gp_index=\"{}\" bridge_type=\"1-1\" depth=\"1\" "
        "bridge_pci=\"000{}:[{:02x}-09]\" "
        "pci_busid=\"000{}:{:02x}:00.0\" pci_type=\"0604 [10b5:8796] [10b5:8796] ab\" "
        "pci_link_speed=\"{}\">",
        id_++, domain, bus + 1, domain, bus, speed);
  }

  std::string device(int domain, int bus, const std::string& type, const std::string& name,
                     int os_type, const std::string& subtype) {
    const int pci = id_++, os = id_++;
    return fmt::format(
        "<object type=\"PCIDev\" gp_index=\"{}\" pci_busid=\"000{}:{:02x}:00.0\" pci_type=\"{}\" "
        "pci_link_speed=\"{}\"><object type=\"OSDev\" gp_index=\"{}\" name=\"{}\" {} "
        "osdev_type=\"{}\"/></object>",
        pci, domain, bus, type, speed, os, name,
        subtype.empty() ? "" : fmt::format("subtype=\"{}\"", subtype), os_type);
  }

  // Between the GPUs of a pair.
  std::string nvlinks() const {
    std::string ids, values;
    for (const int gpu : gpus_) ids += fmt::format("{} ", gpu);
    const int count = 2 * packages;
    for (int i = 0; i < count; ++i) {
      for (int j = 0; j < count; ++j) {
        const std::string pair = i < j ? nvlink_speed : nvlink_back;
        values += i == j ? "1000000 " : i / 2 == j / 2 ? pair + " " : "0 ";
      }
    }
    return fmt::format(
        "<distances2 type=\"OSDev\" nbobjs=\"{}\" kind=\"9\" name=\"NVLinkBandwidth\" "
        "indexing=\"gp\">"
        "<indexes length=\"{}\">{}</indexes><u64values length=\"{}\">{}</u64values></distances2>",
        count, ids.size(), ids, values.size(), values);
  }

  int id_ = 1;
  std::vector<int> gpus_;
};

class HwlocXml : public testing::Test {
 protected:
  void SetUp() override {
    const auto host = read_hwloc("<");
    if (!host.ok() && host.error().message.starts_with("this build has no hwloc")) {
      GTEST_SKIP() << host.error().message;
    }
  }

  static double speed(const Host& host, const char* from, const char* to) {
    for (const Link& link : host.links) {
      if (link.from == host.find(from) && link.to == host.find(to)) return link.speed;
    }
    return 0;
  }
};

TEST_F(HwlocXml, GivesSwitchesGpusAndNics) {
  const auto host = read_hwloc(Xml().text(false));
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(host->all(Kind::kNuma).size(), 2u);
  EXPECT_EQ(host->all(Kind::kSwitch).size(), 2u);
  EXPECT_EQ(host->all(Kind::kGpu).size(), 4u);
  ASSERT_NE(host->find("nvml3"), kNone);
  ASSERT_NE(host->find("eth2"), kNone);
  const VertexId parent = host->vertices[host->find("nvml3")].under;
  EXPECT_EQ(host->vertices[parent].kind, Kind::kSwitch);
  EXPECT_EQ(host->vertices[parent].under, host->find("numa1"));
  EXPECT_EQ(host->vertices[host->find("eth2")].under, host->vertices[host->find("nvml0")].under);
  EXPECT_NEAR(speed(*host, "nvml3", host->vertices[parent].name.c_str()), 15.75e9, 0.01e9);
  EXPECT_EQ(std::count_if(host->links.begin(), host->links.end(),
                          [](const Link& link) { return link.is_assumed; }),
            2)
      << "the speed between the sockets";
  const Routes routes(*host);
  EXPECT_EQ(plan_host(routes).chosen.groups.size(), 2u);
}

TEST_F(HwlocXml, GivesNvlinksOfNvmlsMatrix) {
  const auto host = read_hwloc(Xml().text(true));
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(speed(*host, "nvml0", "nvml1"), 50e9);
  EXPECT_EQ(speed(*host, "nvml3", "nvml2"), 50e9);
  EXPECT_EQ(speed(*host, "nvml1", "nvml2"), 0);
}

TEST_F(HwlocXml, AJsonFileAddsWhatHwlocDoesNotKnow) {
  const auto host = read_host(
      R"({"fmt":"tally-host/1","hwloc":"box.xml","numa":[{"name":"numa0","sum":5e10}],
          "sockets":[{"between":["numa0","numa1"],"speed":2e10}],
          "nvlinks":[{"between":["nvml0","nvml2"],"speed":3e10}],
          "ports":[{"nic":"eth2","speed":12.5e9}]})",
      [](const std::string& path) -> Result<std::string> {
        EXPECT_EQ(path, "box.xml");
        return Xml().text(false);
      });
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(speed(*host, "numa1", "numa0"), 2e10);
  EXPECT_EQ(speed(*host, "nvml2", "nvml0"), 3e10);
  EXPECT_EQ(speed(*host, "eth2", "network"), 12.5e9);
  EXPECT_EQ(host->vertices[host->find("numa0")].sum, 5e10);
  EXPECT_EQ(host->notes.size(), lp::is_available() ? 0u : 1u);
}

TEST_F(HwlocXml, ANoteNamesALinkWhoseSpeedIsAssumed) {
  Xml xml;
  xml.packages = 3;
  const auto notes_of = [&](const std::string& text) {
    const auto host = read_host(
        text, [&](const std::string&) -> Result<std::string> { return Xml(xml).text(false); });
    EXPECT_TRUE(host.ok()) << host.error().message;
    return host.ok() ? host->notes : std::vector<std::string>();
  };
  const std::size_t others = lp::is_available() ? 0 : 1;
  ASSERT_EQ(notes_of(Xml(xml).text(false)).size(), 1 + others);
  const auto rest = notes_of(R"({"fmt":"tally-host/1","hwloc":"box.xml",
      "sockets":[{"between":["numa0","numa1"],"speed":2e10},{"between":["numa2","numa0"],"speed":2e10}]})");
  ASSERT_EQ(rest.size(), 1 + others) << "one of three links is still assumed";
  EXPECT_EQ(rest[0],
            "links between NUMA nodes without a known speed, such as numa1 - numa2, are assumed to "
            "have 37.5 GB/s each way; give their speeds in \"sockets\" of a JSON file with "
            "\"hwloc\"");
}

TEST_F(HwlocXml, WhatAJsonFileAddsIsGivenOnce) {
  const auto refusal_of = [&](const std::string& keys) {
    const auto host =
        read_host(R"({"fmt":"tally-host/1","hwloc":"box.xml",)" + keys + "}",
                  [](const std::string&) -> Result<std::string> { return Xml().text(true); });
    EXPECT_FALSE(host.ok());
    return host.ok() ? "" : host.error().message;
  };
  EXPECT_EQ(refusal_of(R"("sockets":[{"between":["numa0","numa1"],"speed":2e10},
                                     {"between":["numa1","numa0"],"speed":3e10}])"),
            "sockets[1].between = [\"numa1\",\"numa0\"]: must be a pair that is not given before; "
            "add up the "
            "speeds of its links");
  EXPECT_EQ(refusal_of(R"("nvlinks":[{"between":["nvml0","nvml1"],"speed":2e10}])"),
            "nvlinks[0].between = [\"nvml0\",\"nvml1\"]: must be a pair that is not given before; "
            "add up the "
            "speeds of its links");
  EXPECT_EQ(refusal_of(R"("numa":[{"name":"numa0","sum":1e10},{"name":"numa0","peer":1e10}])"),
            "numa[1].name = \"numa0\": must be a NUMA node that is not given before");
}

std::string refusal_of(Xml xml, bool with_nvlinks = false) {
  const auto host = read_hwloc(xml.text(with_nvlinks));
  EXPECT_FALSE(host.ok());
  return host.ok() ? "" : host.error().message;
}

TEST_F(HwlocXml, UnknownSpeedsAreErrors) {
  Xml xml;
  for (const auto& [speed, shown] : {std::pair{"0.000000", "0"}, {"-1", "-1"}, {"nan", "nan"}}) {
    xml.speed = speed;
    EXPECT_THAT(refusal_of(xml), testing::HasSubstr(fmt::format(
                                     "has pci_link_speed {}; must be above 0 GB/s", shown)));
  }
  for (const auto& [speed, shown] : {std::pair{"inf", "inf"}, {"1e7", "10000000"}}) {
    xml.speed = speed;
    EXPECT_THAT(refusal_of(xml),
                testing::HasSubstr(fmt::format(
                    "has pci_link_speed {}; must be above 0 GB/s, and at most 1e6", shown)));
  }
}

TEST_F(HwlocXml, NvlinksFasterThanAnyAreErrors) {
  Xml xml;
  xml.nvlink_back = "18446744073709551615";
  EXPECT_THAT(refusal_of(xml, true),
              testing::HasSubstr("the NVLinks from nvml1 to nvml0 have 18446744073709551615 MB/s; "
                                 "must be at most 1e9"));
}

TEST_F(HwlocXml, MoreNicsThanTheBoundAreAnError) {
  Xml xml;
  xml.nics = kMaxNics;
  EXPECT_TRUE(read_hwloc(Xml(xml).text(false)).ok());
  xml.nics = kMaxNics + 20;
  EXPECT_EQ(refusal_of(xml), "the machine has more than 32 NICs; leave some out");
}

TEST_F(HwlocXml, AMachineWithoutNicsIsAnErrorOfTheXml) {
  Xml xml;
  xml.nics = 0;
  EXPECT_EQ(refusal_of(xml),
            "the XML has no NIC; export it on the GPU machine itself, with its PCI devices: lstopo "
            "--of xml");
}

TEST_F(HwlocXml, NicsOfAMachineWithoutGpusShareTheLinkOfTheirSwitch) {
  Xml xml;
  xml.gpus = 0;
  xml.nics = 2;
  const auto nics = read_nics(xml.text(false));
  ASSERT_TRUE(nics.ok()) << nics.error().message;
  ASSERT_EQ(nics->parts.size(), 3u);
  EXPECT_FALSE(nics->parts[0].is_nic);
  EXPECT_EQ(nics->find("eth2"), 1u);
  EXPECT_EQ(nics->find("eth3"), 2u);
  EXPECT_EQ(nics->find(nics->parts[0].name), 3u) << "a switch is no NIC";
  EXPECT_EQ(nics->parts[1].above, 0u);
  EXPECT_EQ(nics->parts[2].above, 0u);
  for (const plan::PciePart& part : nics->parts) EXPECT_NEAR(part.link.there, 15.75e9, 0.01e9);
  const plan::BothWays together =
      plan::speed_together(*nics, {{0, 0}, {12.5e9, 12.5e9}, {12.5e9, 12.5e9}});
  EXPECT_NEAR(together.there, 15.75e9, 0.01e9);
  EXPECT_NEAR(together.back, 15.75e9, 0.01e9);
}

TEST_F(HwlocXml, GpusAndNvlinksDoNotCountForNics) {
  Xml xml;
  xml.nvlink_speed = "18446744073709551615";
  const auto nics = read_nics(xml.text(true));
  ASSERT_TRUE(nics.ok()) << nics.error().message;
  EXPECT_EQ(nics->parts.size(), 2u);
}

TEST_F(HwlocXml, DevicesOfUnknownTypesDoNotCount) {
  const auto nics_with = [](std::string_view before, const std::string& after) {
    std::string text = Xml().text(false);
    for (std::size_t at = 0; (at = text.find(before, at)) != std::string::npos;) {
      text.replace(at, before.size(), after);
    }
    return read_nics(text);
  };
  const auto bridges = nics_with("bridge_type=\"1-1\"", "bridge_type=\"2-1\"");
  EXPECT_TRUE(!bridges.ok() || bridges->parts.size() == 1u) << "no bridge is a switch";
  EXPECT_FALSE(nics_with("osdev_type=\"2\"", "osdev_type=\"9\"").ok());
}

TEST_F(HwlocXml, NicsAreRefusedWithARemedy) {
  Xml xml;
  xml.nics = 0;
  EXPECT_EQ(
      read_nics(xml.text(false)).error().message,
      "the XML has no NIC; export it on the machine itself, with its PCI devices: lstopo --of "
      "xml");
  EXPECT_EQ(read_nics("<topology>").error().message,
            "hwloc cannot read this XML; export it again: lstopo --of xml");
}

TEST_F(HwlocXml, DamagedFilesAreErrors) {
  EXPECT_EQ(read_hwloc("<topology>").error().message,
            "hwloc cannot read this XML; export it again: lstopo --of xml");
  const std::string whole = Xml().text(true);
  std::mt19937 random(1);
  for (std::size_t i = 0; i < whole.size(); i += 7) {
    std::string text = whole;
    text[i] = static_cast<char>(random() % 256);
    for (const auto& host : {read_hwloc(text), read_hwloc(whole.substr(0, i))}) {
      EXPECT_TRUE(host.ok() || !host.error().message.empty());
    }
    const auto nics = read_nics(text);
    EXPECT_TRUE(nics.ok() || !nics.error().message.empty());
  }
}

}  // namespace
}  // namespace tally::host
