// The rails of a configuration, and what becomes of them when interfaces come and go.
#include "control/config/rails.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/node/jobs/admission.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<Config> with_network(const std::string& network, const std::string& more = "") {
  return parse_config(
      "listen_tcp = \"tcp:*:7733\"\nsecurity.insecure = true\n[shards]\ncount = 4\n" + more +
          "[network]\n" + network,
      "t.toml", {});
}

TEST(ConfiguredRails, AreAddressesAndTheirSpeeds) {
  const auto config =
      with_network("rails = \"10.0.0.1, fd00::0:1\"\nspeeds = \"100Gbit,25Gbit\"\n");
  ASSERT_TRUE(config.ok()) << config.error().message;
  const auto rails = configured_rails(*config);
  ASSERT_TRUE(rails.ok());
  ASSERT_EQ(rails->size(), 2u);
  EXPECT_EQ((*rails)[0].address, "10.0.0.1");
  EXPECT_EQ((*rails)[1].address, "fd00::1") << "as the kernel writes it";
  EXPECT_EQ((*rails)[0].speed, 12'500'000'000u);
  EXPECT_EQ((*rails)[1].speed, 3'125'000'000u);
  EXPECT_THAT(configured_rails(*with_network(""))->size(), 0u);
}

TEST(ConfiguredRails, WhatIsWrongIsNamed) {
  const auto wrong = [](const std::string& network, const char* because,
                        const std::string& more = "") {
    const auto config = with_network(network, more);
    ASSERT_FALSE(config.ok()) << network;
    EXPECT_THAT(config.error().message, HasSubstr(because));
  };
  wrong("rails = \"eth0\"", "\"eth0\" is not an address of one NIC");
  wrong("rails = \"0.0.0.0\"", "is not an address of one NIC");
  wrong("rails = \"::\"", "is not an address of one NIC");
  wrong("rails = \"fd00::1,fd00::0:1\"", "stands there twice");
  wrong("rails = \"10.0.0.1,10.0.1.1\"\nspeeds = \"1Gbit\"", "has 1 speeds and network.rails 2");
  wrong("rails = \"10.0.0.1\"\nspeeds = \"fast\"", "\"fast\" is not a speed");
  wrong("rails = \"10.0.0.1,10.0.1.1\"", "shards.per_job is 1", "per_job = 1\n");
  const auto alone = parse_config("[network]\nrails = \"10.0.0.1\"", "t.toml", {});
  ASSERT_FALSE(alone.ok());
  EXPECT_THAT(alone.error().message, HasSubstr("listen_tcp is empty"));
}

// A machine of few cores has them share one.
TEST(ConfiguredRails, EachHasAShard) {
  std::string addresses = "10.0.0.1";
  for (int i = 2; i <= 16; ++i) addresses += ",10.0.0." + std::to_string(i);
  const std::string text =
      "listen_tcp = \"tcp:*:7733\"\nsecurity.insecure = true\n[shards]\nper_job = "
      "16\n[network]\nrails = \"" +
      addresses;
  const auto config = parse_config(text + "\"", "t.toml", {});
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->shards, 16u);
}

TEST(RailState, FollowsTheInterfaces) {
  std::vector<Rail> rails = {{.address = "10.0.0.1"}, {.address = "10.0.1.1"}};
  deal_shards(rails, 2);
  std::vector<Interface> all = {
      {"lo", "127.0.0.1", true, 8}, {"eth0", "10.0.0.1", true, 24}, {"eth1", "10.0.1.1", true, 24}};
  EXPECT_THAT(refresh(rails, all), IsEmpty());
  all[2].up = false;
  EXPECT_THAT(refresh(rails, all), ElementsAre(1));
  EXPECT_FALSE(rails[1].up);
  EXPECT_THAT(refresh(rails, all), IsEmpty());
  all[2].up = true;
  all.erase(all.begin() + 1);
  EXPECT_THAT(refresh(rails, all), ElementsAre(0, 1));
  EXPECT_FALSE(rails[0].up) << "its address is gone";
  EXPECT_TRUE(rails[1].up);
}

TEST(RailState, ThisMachinesInterfacesAreFound) {
  const auto all = interfaces();
  const Interface* loopback = interface_of(all, "127.0.0.1");
  ASSERT_NE(loopback, nullptr);
  EXPECT_TRUE(loopback->up);
  EXPECT_EQ(loopback->prefix, 8);
}

TEST(RailState, AShardHasTheNicOfItsRail) {
  const auto config = with_network("rails = \"127.0.0.1,10.255.255.1\"");
  ASSERT_TRUE(config.ok());
  const auto all = interfaces();
  EXPECT_THAT(nics_of_shards(*config, *configured_rails(*config), all),
              ElementsAre("lo", "", "lo", ""));
  const auto everywhere = with_network("");
  EXPECT_THAT(nics_of_shards(*everywhere, {}, all), ElementsAre("", "", "", ""));
  const auto one = parse_config(
      "listen_tcp = \"tcp:127.0.0.1:7733\"\nsecurity.insecure = true\n[shards]\ncount = 1\n", "",
      {});
  EXPECT_THAT(nics_of_shards(*one, {}, all), ElementsAre("lo"));
}

// -- what jobs get of them -------------------------------------------------------------------

std::vector<Rail> two_rails(std::uint32_t shards) {
  std::vector<Rail> rails = {{.address = "10.0.0.1", .speed = 300},
                             {.address = "10.0.1.1", .speed = 100}};
  deal_shards(rails, shards);
  return rails;
}

JobInstance& form(Admission& admission, const char* job) {
  return *admission.admit({.job = job, .rank = 0, .ranks = 2}, 1)->instance;
}

TEST(RailsOfAJob, HaveSharesByTheirSpeed) {
  Admission admission({.shards = 4, .shards_per_job = 4}, {});
  admission.set_rails(two_rails(4));
  const JobInstance& job = form(admission, "a");
  EXPECT_THAT(job.shards, ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(job.trees(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(job.plan.classes.back().weights, ElementsAre(24576, 24576, 8192, 8192));
  EXPECT_EQ(job.rate, 200u) << "of 2 ranks";
}

// However the jobs before it lie.
TEST(RailsOfAJob, AreAllOfThem) {
  Admission admission({.shards = 8, .shards_per_job = 2}, {});
  admission.set_rails(two_rails(8));
  EXPECT_THAT(form(admission, "a").shards, ElementsAre(0, 1));
  EXPECT_THAT(form(admission, "b").shards, ElementsAre(2, 3));
}

TEST(RailsOfAJob, AreThoseThatAreUp) {
  Admission admission({.shards = 4, .shards_per_job = 4}, {});
  auto rails = two_rails(4);
  rails[0].up = false;
  admission.set_rails(rails);
  const JobInstance& without = form(admission, "a");
  EXPECT_THAT(without.shards, ElementsAre(1, 3));
  EXPECT_THAT(without.plan.classes.back().weights, ElementsAre(32768, 32768));
  rails[0].up = true;
  admission.set_rails(rails);
  EXPECT_EQ(form(admission, "b").shards.size(), 4u);
}

TEST(RailsOfAJob, AreTheCoordinatorsChoice) {
  Admission admission({.shards = 4, .shards_per_job = 4}, {});
  admission.set_rails(two_rails(4));
  JobAssignment placement;
  placement.id = 1;
  placement.job = "a";
  placement.ranks = 2;
  placement.plan = protocol::weighted_partition({16384, 16384, 32768}, 0);
  placement.trees = {1, 2};
  for (const std::uint32_t tree : placement.trees) {
    placement.vertices.push_back(protocol::star(tree, 2));
  }
  placement.rails = {1, 1};
  const auto placed = admission.place(placement, 0);
  ASSERT_TRUE(placed.ok()) << placed.error().message;
  EXPECT_THAT(placed->instance->shards, ElementsAre(1, 3));
}

// Without an assignment by the coordinator: in turn, those that are up.
TEST(RailsOfAJob, AreInTurnWithoutAPlan) {
  Admission admission({.shards = 4, .shards_per_job = 4}, {});
  auto rails = two_rails(4);
  rails[0].up = false;
  admission.set_rails(rails);
  JobAssignment placement;
  placement.id = 1;
  placement.job = "a";
  placement.ranks = 2;
  placement.plan = protocol::weighted_partition({32768, 32768}, 0);
  placement.trees = {0, 1};
  for (const std::uint32_t tree : placement.trees) {
    placement.vertices.push_back(protocol::star(tree, 2));
  }
  const auto placed = admission.place(placement, 0);
  ASSERT_TRUE(placed.ok()) << placed.error().message;
  EXPECT_THAT(placed->instance->shards, ElementsAre(1, 3));
}

}  // namespace
}  // namespace tally::control
