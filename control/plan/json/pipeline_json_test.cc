#include "control/plan/json/pipeline_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/damaged_json.h"

namespace tally::plan {
namespace {

using ::testing::HasSubstr;

constexpr const char* kProfile =
    R"({"fmt":"tally-profile/1","model":"small","microbatch":8.0,"types":["a100","t4"],
 "blocks":[
  {"name":"embed","forward":[0.001,0.01],"backward":[0.002,0.02],"output":1000.0,"stash":4000.0,"kept":0.0,"weights":64000.0},
  {"name":"head","forward":[0.003,0.03],"backward":[0.004,0.04],"output":10.0,"stash":40.0,"kept":1000.0,"weights":640.0}
 ]}
)";

constexpr const char* kGpus = R"({"fmt":"tally-gpus/1",
 "servers":[
  {"name":"a","nic":1250000000.0,"inside":16000000000.0,"gpus":[{"type":"a100","speed":1.0,"memory":80000000000.0,"count":2},{"type":"t4","speed":1.0,"count":1}]},
  {"name":"b","nic":12500000000.0,"gpus":[{"type":"t4","speed":2.0,"memory":16000000000.0,"count":1}]},
  {"name":"c","gpus":[{"type":"t4","speed":1.0,"count":1}]}
 ],
 "pairs":[
  {"between":["a","c"],"speed":2000000000.0},
  {"between":["c","b"],"speed":3000000000.0}
 ]}
)";

std::string profile_mistake(const std::string& text) {
  const auto file = read_profile(text);
  return file ? "" : file.error().message;
}

std::string gpus_mistake(const std::string& text) {
  const auto file = read_gpus(text);
  return file ? "" : file.error().message;
}

std::string replaced(std::string text, std::string_view before, std::string_view after) {
  const auto at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  return text.replace(at, before.size(), after);
}

TEST(ProfileJson, IsReadAsItWasWritten) {
  const auto file = read_profile(kProfile);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->model, "small");
  EXPECT_EQ(file->microbatch, 8);
  EXPECT_THAT(file->profile.types, ::testing::ElementsAre("a100", "t4"));
  ASSERT_EQ(file->profile.blocks.size(), 2u);
  const pipeline::Block& head = file->profile.blocks[1];
  EXPECT_EQ(head.times[1].forward, 0.03);
  EXPECT_EQ(head.times[1].backward, 0.04);
  EXPECT_EQ(head.output, 10);
  EXPECT_EQ(head.stash, 40);
  EXPECT_EQ(head.kept, 1000);
  EXPECT_EQ(head.weights, 640);
  EXPECT_EQ(write_profile(*file), kProfile);
}

TEST(ProfileJson, ARecomputedBlockKeepsItsInputUnlessTheFileDiffers) {
  const auto file =
      read_profile(replaced(replaced(kProfile, "\"kept\":0.0,", ""), "\"kept\":1000.0,", ""));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->profile.blocks[0].kept, 0);
  EXPECT_EQ(file->profile.blocks[1].kept, 1000);
}

TEST(ProfileJson, ErrorsNameThePlaceAndWhatItMustBe) {
  EXPECT_EQ(profile_mistake(replaced(kProfile, "0.003", "-1")),
            "blocks[1].forward[0] = -1: must be seconds, 0 to 1e9");
  EXPECT_EQ(profile_mistake(replaced(kProfile, "[0.003,0.03]", "[0.003]")),
            "blocks[1].forward = [0.003]: must be a list of 2 times, one for each type");
  EXPECT_EQ(profile_mistake(replaced(kProfile, "4000.0", "1e300")),
            "blocks[0].stash = 1e+300: must be bytes, 0 to 1e18");
  EXPECT_EQ(profile_mistake(replaced(kProfile, "\"t4\"", "\"a100\"")),
            "types[1] = \"a100\": must be a type that is not in the list yet, and not empty");
  EXPECT_EQ(profile_mistake(replaced(kProfile, ",\"weights\":64000.0", "")),
            "blocks[0].weights: missing; must be given");
  EXPECT_THAT(profile_mistake(replaced(kProfile, "\"stash\":4000.0", "\"output\":4000.0")),
              HasSubstr("\"output\": given twice in one object"));
  EXPECT_THAT(profile_mistake("{\"fmt\":\"tally-profile/1\",\"types\":[\"a\"],\"blocks\":[]}"),
              HasSubstr("blocks = []: must be a list of at least one block"));
  EXPECT_EQ(profile_mistake(kGpus), "fmt = \"tally-gpus/1\": must be \"tally-profile/1\"");
}

TEST(ProfileJson, DamagedFilesAreRefusedAtTheirPlace) {
  const auto copies = damaged_copies(kProfile);
  EXPECT_GT(copies.size(), 30u);
  for (const DamagedCopy& copy : copies) {
    EXPECT_THAT(profile_mistake(copy.text), HasSubstr(copy.place)) << copy.text;
    EXPECT_THAT(profile_mistake(copy.text), HasSubstr("must be")) << copy.text;
  }
}

TEST(ProfileJson, TornFilesAreReadOrRefused) {
  const auto copies = torn_copies(kProfile);
  EXPECT_GT(copies.size(), 500u);
  for (const std::string& copy : copies) {
    const auto file = read_profile(copy);
    if (file) {
      EXPECT_EQ(profile_mistake(write_profile(*file)), "");
    } else {
      EXPECT_NE(file.error().message, "");
    }
  }
}

TEST(GpusJson, AreReadAsTheyWereWritten) {
  const auto file = read_gpus(kGpus);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(write_gpus(*file), kGpus);
  ASSERT_EQ(file->servers.size(), 3u);
  EXPECT_EQ(file->servers[0].gpus[0].count, 2u);
  EXPECT_EQ(file->servers[0].gpus[1].memory, pipeline::kUnlimited);
  EXPECT_EQ(file->pairs[1].first, 2u);
}

TEST(GpusJson, BecomeTheGpusAndBandwidthsOfAPlan) {
  const auto cluster = cluster_of(*read_gpus(kGpus), read_profile(kProfile)->profile);
  ASSERT_TRUE(cluster.ok()) << cluster.error().message;
  ASSERT_EQ(cluster->gpus.size(), 5u);
  EXPECT_EQ(cluster->gpus[2].name, "a/2");
  EXPECT_EQ(cluster->gpus[2].type, 1u);
  EXPECT_EQ(cluster->gpus[3].speed, 2);
  EXPECT_EQ(cluster->gpus[4].server, 2u);
  EXPECT_EQ(cluster->between(0, 1), 16e9);
  EXPECT_EQ(cluster->between(0, 3), 1.25e9);  // the slower NIC
  EXPECT_EQ(cluster->between(2, 4), 2e9);
  EXPECT_EQ(cluster->between(3, 4), 3e9);
}

TEST(GpusJson, ErrorsNameThePlaceAndTheRemedy) {
  const auto profile = read_profile(kProfile)->profile;
  const auto refusal = [&](const std::string& text) {
    const auto file = read_gpus(text);
    if (!file) return file.error().message;
    const auto cluster = cluster_of(*file, profile);
    return cluster ? std::string() : cluster.error().message;
  };
  EXPECT_EQ(refusal(replaced(kGpus, "\"a100\"", "\"h100\"")),
            "servers[0].gpus[0].type = \"h100\": must be a type of the profile: profile the model "
            "on such a GPU, or give the type of another and a \"speed\"");
  EXPECT_EQ(
      refusal(replaced(kGpus, "\"inside\":16000000000.0,", "")),
      "servers[0] = \"a\": has several GPUs; give it \"inside\", the bytes per second between "
      "two of them");
  EXPECT_EQ(refusal(replaced(kGpus, "[\"c\",\"b\"]", "[\"a\",\"b\"]")),
            "servers \"b\" and \"c\": the speed between them is not known; give both \"nic\", or "
            "give them an entry in \"pairs\"");
  EXPECT_EQ(refusal(replaced(kGpus, "\"count\":2", "\"count\":63")),
            "66 GPUs: must be at most 64; plan for a part of them, and run several such pipelines");
  EXPECT_EQ(refusal(replaced(kGpus, "\"name\":\"b\"", "\"name\":\"a\"")),
            "servers[1].name = \"a\": must be a name that no other server has, not empty");
  EXPECT_EQ(refusal(replaced(kGpus, "[\"a\",\"c\"]", "[\"a\",\"a\"]")),
            "pairs[0].between = [\"a\",\"a\"]: must be two different servers");
  EXPECT_EQ(refusal(replaced(kGpus, "[\"a\",\"c\"]", "[\"a\",\"d\"]")),
            "pairs[0].between[1] = \"d\": must be the name of one of the servers");
  EXPECT_EQ(refusal(kProfile), "fmt = \"tally-profile/1\": must be \"tally-gpus/1\"");
}

TEST(GpusJson, DamagedFilesAreRefusedAtTheirPlace) {
  const auto copies = damaged_copies(kGpus);
  EXPECT_GT(copies.size(), 40u);
  for (const DamagedCopy& copy : copies) {
    EXPECT_THAT(gpus_mistake(copy.text), HasSubstr(copy.place)) << copy.text;
    EXPECT_THAT(gpus_mistake(copy.text), HasSubstr("must be")) << copy.text;
  }
}

TEST(GpusJson, TornFilesAreReadOrRefused) {
  for (const std::string& copy : torn_copies(kGpus)) {
    const auto file = read_gpus(copy);
    if (file) {
      EXPECT_EQ(gpus_mistake(write_gpus(*file)), "");
    } else {
      EXPECT_NE(file.error().message, "");
    }
  }
}

}  // namespace
}  // namespace tally::plan
