#include "control/plan/json/groups_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/damaged_json.h"

namespace tally::plan {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSteps =
    R"({"fmt":"tally-steps/1","bytes":100000000.0,"batch":32.0,"nic":1250000000.0,
 "server":{"name":"s","speed":12500000000.0},
 "workers":[
  {"name":"a","step":0.125},
  {"name":"b","step":0.25}]}
)";

std::string steps_mistake(const std::string& text) {
  const auto file = read_steps(text);
  return file ? "" : file.error().message;
}

std::string steps_with(std::string_view before, std::string_view after) {
  std::string text = kSteps;
  const auto at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  return text.replace(at, before.size(), after);
}

TEST(StepsJson, AreReadAsTheyWereWritten) {
  const auto file = read_steps(kSteps);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->problem.bytes, 1e8);
  EXPECT_EQ(file->problem.batch, 32);
  EXPECT_EQ(file->problem.nic, 1.25e9);
  EXPECT_EQ(file->problem.server, 12.5e9);
  EXPECT_EQ(file->server, "s");
  ASSERT_EQ(file->problem.workers.size(), 2u);
  EXPECT_EQ(file->problem.workers[1].step, 0.25);
  EXPECT_EQ(write_steps(*file), kSteps);
}

TEST(StepsJson, ErrorsNameThePlaceAndWhatItMustBe) {
  EXPECT_EQ(steps_mistake(steps_with("0.25", "0")),
            "workers[1].step = 0: must be seconds, above 0, up to 1e9");
  EXPECT_EQ(steps_mistake(steps_with("\"b\"", "\"s\"")),
            "workers[1].name = \"s\": must be a name that no other machine has, and not empty");
  EXPECT_EQ(steps_mistake(steps_with("12500000000.0", "0.5")),
            "server.speed = 0.5: must be bytes per second, 1 to 1e15");
  EXPECT_EQ(steps_mistake(steps_with("\"nic\":1250000000.0,", "")), "nic: missing; must be given");
  EXPECT_EQ(steps_mistake(R"({"fmt":"tally-gpus/1","servers":[]})"),
            "fmt = \"tally-gpus/1\": must be \"tally-steps/1\"");
}

TEST(StepsJson, DamagedFilesAreRefusedAtTheirPlace) {
  const auto copies = damaged_copies(kSteps);
  EXPECT_GT(copies.size(), 15u);
  for (const DamagedCopy& copy : copies) {
    EXPECT_THAT(steps_mistake(copy.text), HasSubstr(copy.place)) << copy.text;
    EXPECT_THAT(steps_mistake(copy.text), HasSubstr("must be")) << copy.text;
  }
  for (const std::string& copy : torn_copies(kSteps)) {
    const auto file = read_steps(copy);
    if (file) {
      EXPECT_EQ(steps_mistake(write_steps(*file)), "");
    } else {
      EXPECT_NE(file.error().message, "");
    }
  }
}

}  // namespace
}  // namespace tally::plan
