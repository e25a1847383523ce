#include "control/plan/json/sections_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/plan/json/plan_json.h"
#include "control/plan/model/validate.h"
#include "tests/support/control/damaged_json.h"

namespace tally::plan {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSections =
    R"({"fmt":"gsplan/1","epoch":1,"method":"pipeline","objective":"allreduce",
 "nodes":[{"id":0,"role":"worker","in":1e9,"out":1e9},{"id":1,"role":"worker","in":1e9,"out":1e9},
  {"id":2,"role":"helper","in":1e9,"out":1e9},{"id":3,"role":"switch"}],
 "links":[[0,3,1e9],[3,0,1e9],[1,3,1e9],[3,1,1e9],[2,3,1e9],[3,2,1e9]],
 "domains":[
  {"name":"st0","workers":[0],"classes":[{"max_bytes":null,"chunk":65536,"trees":[{"w":65536,"up":[-1,-2,-2]}]}]},
  {"name":"st1","workers":[1],"classes":[{"max_bytes":null,"chunk":65536,"trees":[{"w":65536,"up":[-2,-1,-2]}]}]}],
 "pipeline":{"order":[2,0,1],"stages":[
   {"blocks":[0,4],"ranks":[2,0],"recompute":[1,2],"inflight":2,"domain":"st0"},
   {"blocks":[4,6],"ranks":[1],"recompute":[],"inflight":1,"domain":"st1"}],"t_bottleneck":6.25},
 "async":{"root":2,"groups":["st0","st1"],"max_staleness":4,"local_steps":[1,2]}})";

std::string section_mistake(const std::string& text) {
  const auto plan = read_plan(text);
  if (!plan) return plan.error().message;
  const auto valid = validate(*plan, {});
  return valid ? "" : valid.error().message;
}

std::string section_with(std::string_view before, std::string_view after) {
  std::string text = kSections;
  const auto at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  return section_mistake(text.replace(at, before.size(), after));
}

TEST(SectionsJson, AreReadAsTheyWereWritten) {
  const auto plan = read_plan(kSections);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(section_mistake(kSections), "");
  ASSERT_TRUE(plan->pipeline.has_value());
  ASSERT_TRUE(plan->async.has_value());
  const StageSection& stage = plan->pipeline->stages.at(0);
  EXPECT_EQ(stage.end_block, 4u);
  EXPECT_THAT(stage.ranks, ::testing::ElementsAre(2, 0));
  EXPECT_THAT(stage.recompute, ::testing::ElementsAre(1, 2));
  EXPECT_EQ(stage.in_flight, 2u);
  EXPECT_EQ(plan->pipeline->bottleneck, 6.25);
  EXPECT_EQ(plan->async->root, 2u);
  EXPECT_EQ(plan->async->max_staleness, 4u);
  EXPECT_THAT(plan->async->local_steps, ::testing::ElementsAre(1, 2));
  const std::string written = write_plan(*plan);
  const auto again = read_plan(written);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(write_plan(*again), written);
}

TEST(SectionsJson, APlanMayBoundNoStaleness) {
  std::string text = kSections;
  text.replace(text.find("\"max_staleness\":4"), 17, "\"max_staleness\":null");
  const auto plan = read_plan(text);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_FALSE(plan->async->max_staleness.has_value());
  EXPECT_THAT(write_plan(*plan), HasSubstr("\"max_staleness\":null"));
}

TEST(SectionsJson, ErrorsNameThePlaceAndWhatItMustBe) {
  EXPECT_EQ(section_with("[4,6]", "[3,6]"),
            "pipeline.stages[1].blocks = [3,6]: must begin at 4, where the stage before ends, and "
            "have at least one block");
  EXPECT_EQ(section_with("[0,4]", "[0]"),
            "pipeline.stages[0].blocks = [0]: must be [first block, end]");
  EXPECT_EQ(
      section_with("[1,2],\"inflight\"", "[1,4],\"inflight\""),
      "pipeline.stages[0].recompute[1] = 4: must be a block of the stage, in ascending order");
  EXPECT_EQ(section_with("\"domain\":\"st1\"", "\"domain\":\"st2\""),
            "pipeline.stages[1].domain = \"st2\": must be the name of one of the domains");
  EXPECT_EQ(section_with("\"order\":[2,0,1]", "\"order\":[0,2,1]"),
            "pipeline.order: must have the ranks of all stages, one after the other");
  EXPECT_EQ(section_with("\"inflight\":2", "\"inflight\":0"),
            "pipeline.stages[0].inflight = 0: must be a whole number from 1 to 4096");
  EXPECT_EQ(section_with("\"root\":2", "\"root\":1"), "async.root = 1: must be the id of a helper");
  EXPECT_EQ(section_with("[\"st0\",\"st1\"]", "[\"st0\",\"st0\"]"),
            "async.groups[1] = \"st0\": must be the name of one of the domains, each once");
  EXPECT_EQ(section_with("\"local_steps\":[1,2]", "\"local_steps\":[1]"),
            "async.local_steps: 1 entries; must be 2, one for each group");
}

TEST(SectionsJson, DamagedSectionsAreRefusedAtTheirPlace) {
  std::size_t tried = 0;
  for (const DamagedCopy& copy : damaged_copies(kSections)) {
    if (!copy.place.starts_with("pipeline") && !copy.place.starts_with("async")) continue;
    EXPECT_THAT(section_mistake(copy.text), HasSubstr(copy.place)) << copy.text;
    EXPECT_THAT(section_mistake(copy.text), HasSubstr("must be")) << copy.text;
    ++tried;
  }
  EXPECT_GT(tried, 35u);
}

TEST(SectionsJson, TornPlansAreReadOrRefused) {
  for (const std::string& copy : torn_copies(kSections)) {
    const auto plan = read_plan(copy);
    if (plan) {
      EXPECT_TRUE(read_plan(write_plan(*plan)).ok());
    } else {
      EXPECT_NE(plan.error().message, "");
    }
  }
}

}  // namespace
}  // namespace tally::plan
