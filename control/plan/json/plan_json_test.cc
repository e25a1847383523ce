#include "control/plan/json/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "control/plan/json/document.h"
#include "control/plan/model/validate.h"
#include "tests/support/control/damaged_json.h"
#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

constexpr std::string_view kFile =
    R"({"fmt":"gsplan/1","epoch":7,"method":"tpp","objective":"allreduce",
 "nodes":[{"id":0,"role":"worker","addr":"10.0.0.1:7000","rack":0,"in":12.5e9,"out":12.5e9,"sum":40e9},
  {"id":1,"role":"worker","in":1e9,"out":1e9},{"id":2,"role":"helper","in":1e9,"out":1e9},
  {"id":3,"role":"switch"}],
 "links":[[0,3,12.5e9],[3,0,12.5e9],[1,3,1e9],[3,1,1e9],[2,3,1e9],[3,2,1e9]],
 "domains":[{"name":"dp0","workers":[0,1],"mode":"sync",
  "classes":[{"max_bytes":262144,"chunk":65536,"trees":[{"w":65536,"up":[2,2,-1]}]},
   {"max_bytes":null,"chunk":524288,"window":64,
    "trees":[{"w":40000,"up":[-1,0,-2]},{"w":25536,"up":[-1,2,0],"down":[-1,0,-2]}]}],
  "cert":{"tau":2e-9,"lb":1e-9}}]})";

std::string json_mistake(std::string_view text) {
  const auto plan = read_plan(text);
  return plan ? "" : plan.error().message;
}

// The mistake that is reported when `after` is written in place of `before`.
std::string with(std::string_view before, std::string_view after) {
  std::string text(kFile);
  const auto at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  return json_mistake(text.replace(at, before.size(), after));
}

TEST(PlanJson, ReadsEveryKey) {
  const auto plan = read_plan(kFile);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->epoch, 7u);
  EXPECT_EQ(plan->method, "tpp");
  EXPECT_EQ(objective(*plan), "allreduce");
  ASSERT_EQ(plan->network.vertices.size(), 4u);
  EXPECT_EQ(plan->network.vertices[0].name, "10.0.0.1:7000");
  EXPECT_EQ(plan->network.vertices[0].rack, 0u);
  EXPECT_EQ(plan->network.vertices[0].sum, 40e9);
  EXPECT_EQ(plan->network.vertices[2].role, Role::kHelper);
  EXPECT_EQ(plan->network.links[2].capacity, 1e9);
  const Domain& domain = plan->domains.at(0);
  EXPECT_EQ(domain.name, "dp0");
  EXPECT_EQ(domain.workers, (std::vector<VertexId>{0, 1}));
  EXPECT_EQ(domain.classes.at(0).max_bytes, 262144u);
  EXPECT_EQ(domain.classes.at(1).max_bytes, std::nullopt);
  EXPECT_FALSE(domain.classes.at(0).is_divided());
  EXPECT_TRUE(domain.classes.at(1).is_divided()) << "without \"divided\", the last one is";
  EXPECT_EQ(domain.classes.at(1).window, 64u);
  EXPECT_EQ(domain.classes.at(1).trees.at(1).weight, 25536u);
  EXPECT_EQ(domain.classes.at(1).trees.at(1).down, (Parents{-1, 0, -2}));
  EXPECT_EQ(domain.certificate->tau, 2e-9);
}

TEST(PlanJson, WritesWhatItReads) {
  std::mt19937_64 random(17);
  std::vector<Plan> plans = {small_plan(), *read_plan(kFile)};
  plans.push_back(plans[0]);
  plans.back().domains[0].certificate =
      Certificate{2e-9, 1e-9, {{Passage::kLink, 0, 4, 1.0 / 3}, {Passage::kSum, 3, 3, 2e-17}}};
  for (int trial = 0; trial < 100; ++trial) {
    const auto plan = plan_star(random_machines(random), {});
    ASSERT_TRUE(plan.ok());
    plans.push_back(*plan);
  }
  for (const Plan& plan : plans) {
    const std::string text = write_plan(plan);
    const auto again = read_plan(text);
    ASSERT_TRUE(again.ok()) << again.error().message << "\n" << text;
    ASSERT_EQ(write_plan(*again), text);
    ASSERT_EQ(again->network.vertices[0].in, plan.network.vertices[0].in);
    ASSERT_EQ(validate(*again, {}).ok(), validate(plan, {}).ok());
  }
}

TEST(PlanJson, AClassMayBeMarkedAsDivided) {
  std::string text(kFile);
  text.replace(text.find("65536,\"trees\""), 6, "65536,\"divided\":true,");
  text.replace(text.find("64,\n"), 3, "64,\"divided\":false,");
  const auto plan = read_plan(text);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_TRUE(plan->domains.at(0).classes.at(0).is_divided());
  EXPECT_FALSE(plan->domains.at(0).classes.at(1).is_divided());
  const auto again = read_plan(write_plan(*plan));
  EXPECT_TRUE(again->domains.at(0).classes.at(0).is_divided());
  EXPECT_EQ(with("65536,\"trees\"", "65536,\"divided\":1,\"trees\""),
            "domains[0].classes[0].divided = 1: must be true or false");
}

TEST(PlanJson, ReadsTheTensorsOfADomain) {
  std::string text(kFile);
  text.replace(text.find("\"cert\""), 6, "\"tensors\":[[3,400],[7,0]],\"cert\"");
  const auto plan = read_plan(text);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto again = read_plan(write_plan(*plan));
  ASSERT_TRUE(again.ok()) << again.error().message;
  ASSERT_EQ(again->domains.at(0).tensors.size(), 2u);
  EXPECT_EQ(again->domains.at(0).tensors[0].tag, 3u);
  EXPECT_EQ(again->domains.at(0).tensors[0].bytes, 400u);
  EXPECT_EQ(with("\"cert\"", "\"tensors\":[[3]],\"cert\""),
            "domains[0].tensors[0] = [3]: must be [tag, bytes]");
  EXPECT_EQ(with("\"cert\"", "\"tensors\":[[-3,1]],\"cert\""),
            "domains[0].tensors[0][0] = -3: must be a whole number from 0 to 4294967295");
}

TEST(PlanJson, TheObjectiveIsThatOfAllClasses) {
  std::string text(kFile);
  const auto plan = read_plan(text.replace(text.find("allreduce"), 9, "rs-ag"));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  for (const SizeClass& one : plan->domains.at(0).classes) EXPECT_TRUE(one.rs_ag);
  EXPECT_EQ(objective(*plan), "rs-ag");
  const auto again = read_plan(write_plan(*plan));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(objective(*again), "rs-ag");
}

TEST(PlanJson, ErrorsNameTheKey) {
  EXPECT_EQ(with("gsplan/1", "gsplan/2"), "fmt = \"gsplan/2\": must be \"gsplan/1\"");
  EXPECT_EQ(with("\"epoch\":7", "\"epoch\":-7"),
            "epoch = -7: must be a whole number from 0 to 9007199254740992");
  EXPECT_EQ(with("\"epoch\":7,", ""), "epoch: missing; must be given");
  EXPECT_EQ(with("\"tpp\"", "[1]"), "method = [1]: must be a text of at most 256 bytes");
  EXPECT_EQ(with("allreduce", "reduce"),
            "objective = \"reduce\": must be one of \"allreduce\", \"rs-ag\"");
  EXPECT_EQ(with("\"id\":1", "\"id\":2"), "nodes[1].id = 2: must be 1, its place in the list");
  EXPECT_EQ(with("\"helper\"", "\"server\""),
            "nodes[2].role = \"server\": must be one of \"worker\", \"helper\", \"switch\"");
  EXPECT_EQ(with("\"in\":12.5e9", "\"in\":\"fast\""),
            "nodes[0].in = \"fast\": must be a number of bytes per second, like 12.5e9");
  EXPECT_EQ(with("\"in\":1e9,", ""), "nodes[1].in: missing; must be given");
  EXPECT_EQ(
      with("\"rack\"", "\"row\""),
      "nodes[0].\"row\": not known here; must be one of \"id\", \"role\", \"addr\", \"rack\", "
      "\"in\", \"out\", \"sum\"");
  EXPECT_EQ(with("[1,3,1e9]", "[1,3]"), "links[2] = [1,3]: must be [from, to, bytes per second]");
  EXPECT_EQ(with("[1,3,1e9]", "[1,4096,1e9]"),
            "links[2][1] = 4096: must be a whole number from 0 to 4095");
  EXPECT_EQ(with("\"sync\"", "\"async\""), "domains[0].mode = \"async\": must be \"sync\"");
  EXPECT_EQ(with("[0,1]", "7"), "domains[0].workers = 7: must be a list");
  EXPECT_EQ(with("\"max_bytes\":262144,", ""),
            "domains[0].classes[0].max_bytes: missing; must be given");
  EXPECT_EQ(with("65536,\"trees\"", "0.5,\"trees\""),
            "domains[0].classes[0].chunk = 0.5: must be a whole number from 1 to 9007199254740992");
  EXPECT_EQ(with("\"w\":40000", "\"w\":65537"),
            "domains[0].classes[1].trees[0].w = 65537: must be a whole number from 1 to 65536");
  EXPECT_EQ(with("[2,2,-1]", "[2,2,-3]"),
            "domains[0].classes[0].trees[0].up[2] = -3: must be a whole number from -2 to 4095");
  EXPECT_EQ(with("\"down\":[-1,0,-2]", "\"down\":[]"),
            "domains[0].classes[1].trees[1].down = []: must be parents like those of up, or left "
            "out");
  EXPECT_EQ(with("\"lb\"", "\"bound\"").substr(0, 29), "domains[0].cert.\"bound\": not ");
}

TEST(PlanJson, DamagedFilesAreRefusedAtTheirPlace) {
  const auto copies = damaged_copies(std::string(kFile));
  EXPECT_GT(copies.size(), 100u);
  for (const DamagedCopy& copy : copies) {
    EXPECT_THAT(json_mistake(copy.text), testing::HasSubstr(copy.place)) << copy.text;
    EXPECT_THAT(json_mistake(copy.text), testing::HasSubstr("must be")) << copy.text;
  }
}

TEST(PlanJson, RefusesFilesThatAreNoPlan) {
  EXPECT_EQ(json_mistake("[]"), "the file = []: must be an object");
  EXPECT_EQ(json_mistake("{\n\"fmt\" 7}").substr(0, 42),
            "not JSON: parse error at line 2, column 7:");
  EXPECT_EQ(with("\"epoch\":7", "\"epoch\":7,\"epoch\":8"),
            "\"epoch\": given twice in one object; leave one out");
  EXPECT_EQ(json_mistake(std::string(100'000, '[') + std::string(100'000, ']')),
            "nested deeper than 16 levels: not a plan");
  for (const std::size_t more : {1, 3'000'000}) {
    EXPECT_EQ(json_mistake(std::string(kMaxPlanBytes + more, ' ')),
              "more than 16777216 bytes; make it smaller");
  }
  EXPECT_NE(json_mistake("{\"fmt\":1e999}"), "");
  EXPECT_NE(json_mistake("{\"fmt\":\"\xff\"}"), "");
}

TEST(PlanJson, EmptyAndCutOffFilesAreNamedAsSuch) {
  for (const char* empty : {"", " ", "\n\n"}) {
    EXPECT_EQ(json_mistake(empty), "is empty; must be JSON");
  }
  EXPECT_EQ(json_mistake("{\n \"fmt\":\n\n"),
            "ends early, at line 2, column 7; write it again, whole");
  for (std::size_t length = 1; length < kFile.size(); ++length) {
    const std::string mistake = json_mistake(kFile.substr(0, length));
    EXPECT_EQ(mistake.find("ends early, at line "), 0U) << length << ": " << mistake;
  }
}

TEST(PlanJson, AFileOfAnotherKindIsNamedAsSuch) {
  const std::string remedy =
      ": must be \"gsplan/1\"; make a plan of it: tallyctl plan make --network FILE";
  EXPECT_EQ(json_mistake(R"({"fmt":"tally-network/1","machines":[]})"),
            "fmt = \"tally-network/1\"" + remedy);
  EXPECT_EQ(json_mistake(R"({"fmt":"tally-machines/1","machines":[]})"),
            "fmt = \"tally-machines/1\"" + remedy);
  EXPECT_EQ(json_mistake(R"({"fmt":"tally-steps/1","workers":[]})"),
            "fmt = \"tally-steps/1\": must be \"gsplan/1\"");
  EXPECT_EQ(json_mistake(R"({"workers":[]})"), "fmt: missing; must be given");
}

TEST(PlanJson, SizesAreBounded) {
  std::string nodes =
      "{\"fmt\":\"gsplan/1\",\"epoch\":1,\"method\":\"\",\"objective\":\"allreduce\",";
  nodes += "\"nodes\":[0";
  for (std::size_t i = 0; i < kMaxVertices; ++i) nodes += ",0";
  EXPECT_EQ(json_mistake(nodes + "],\"links\":[],\"domains\":[]}"),
            "nodes: 4097 entries; must be at most 4096");
  std::string trees(kFile.substr(0, kFile.find("\"trees\"")));
  trees += "\"trees\":[{\"w\":1,\"up\":[]}";
  for (std::size_t i = 0; i < kMaxTrees; ++i) trees += ",{\"w\":1,\"up\":[]}";
  EXPECT_EQ(json_mistake(trees + "]}]}]}"),
            "domains[0].classes[0].trees: 65537 entries; must be at most 65536");
}

// Bytes changed, cut out, doubled: an answer every time, and what passes is safe to check.
TEST(PlanJson, MutatedFilesAreReadOrRefused) {
  std::mt19937_64 random(23);
  const std::string pieces = "{}[],:\"-0123456789.eE nulltrue\\u\xff\x01";
  int accepted = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::string text(kFile);
    for (std::size_t changes = 1 + random() % 3; changes > 0 && !text.empty(); --changes) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = pieces[random() % pieces.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), 1 + random() % 20));
          break;
        default:
          text[at] = static_cast<char>('0' + random() % 10);
      }
    }
    const auto plan = read_plan(text);
    if (!plan) {
      ASSERT_FALSE(plan.error().message.empty());
      continue;
    }
    ++accepted;
    static_cast<void>(validate(*plan, {}));
    ASSERT_TRUE(read_plan(write_plan(*plan)).ok()) << write_plan(*plan);
  }
  EXPECT_GT(accepted, 20);
}

}  // namespace
}  // namespace tally::plan
