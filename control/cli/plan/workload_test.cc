#include "control/cli/plan/workload.h"

#include <gtest/gtest.h>

namespace tally::control {
namespace {

Workload load(std::string_view name) {
  return find_workload(std::string(name)).value();
}

TEST(Workload, BuiltinsHaveThePublishedTotals) {
  EXPECT_EQ(load("resnet50").tensors.size(), 161u);
  EXPECT_EQ(load("resnet50").elements(), 25'557'032u);
  EXPECT_EQ(load("vgg16").elements(), 138'357'544u);
  EXPECT_EQ(load("bert-large").elements(), 335'141'888u);
  EXPECT_EQ(load("gpt2").elements(), 124'439'808u);
  EXPECT_EQ(load("gpt2-xl").elements(), 1'557'611'200u);
  EXPECT_EQ(builtin_workloads().size(), 5u);
}

TEST(Workload, NamesOfModelsAreNotPaths) {
  EXPECT_TRUE(is_workload_path("./gpt2"));
  EXPECT_TRUE(is_workload_path("gpt2.json"));
  EXPECT_FALSE(is_workload_path("gpt2")) << "the name of a model, even beside a file of this name";
}

TEST(Workload, FilesMayHaveFurtherKeys) {
  EXPECT_TRUE(
      parse_workload(R"({"fmt":"mine","model":"m","parameters":2,"tensors":[["a",[2]]]})").ok());
}

TEST(Workload, DamagedFilesAreRefusedWithWords) {
  const char* const damaged[] = {
      "",
      "[]",
      R"({"tensors":[["a",[1]]],"parameters":1})",
      R"({"model":"m","parameters":1})",
      R"({"model":"m","tensors":[],"parameters":0})",
      R"({"model":"m","tensors":[["a"]],"parameters":1})",
      R"({"model":"m","tensors":[["a",[]]],"parameters":1})",
      R"({"model":"m","tensors":[["a",[-1]]],"parameters":1})",
      R"({"model":"m","tensors":[["a",[0]]],"parameters":0})",
      R"({"model":"m","tensors":[["a",[4294967296,4294967296]]],"parameters":0})",
      R"({"model":"m","tensors":[["a",[2,3]]],"parameters":7})",
      R"({"model":"m","tensors":[["a",[2,3]]]})",
  };
  for (const char* text : damaged) {
    const auto parsed = parse_workload(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_TRUE(parsed.error().message.starts_with("workload: ")) << parsed.error().message;
  }
  EXPECT_EQ(parse_workload(R"({"fmt":"gsplan/1"})").error().message,
            "workload: fmt = \"gsplan/1\": must be a model, as in perf/workloads/*.json");
  EXPECT_TRUE(parse_workload(R"({"model":"m","tensors":[["a",[2,3]]],"parameters":6})").ok());
  EXPECT_NE(find_workload("alexnet").error().message.find("resnet50"), std::string::npos);
  EXPECT_FALSE(find_workload("/nowhere/x.json").ok());
}

}  // namespace
}  // namespace tally::control
