// tallyctl plan, from its command line to what it prints.
#include "control/cli/plan/plan_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "control/plan/json/plan_json.h"
#include "tests/support/control/plan_words.h"
#include "tests/support/net/rpc_test_support.h"

namespace tally::control {
namespace {

using nlohmann::json;
using rpc::TemporaryDirectory;

PlanAnswer answer(std::vector<std::string> words, bool as_json = false) {
  PlanArguments arguments;
  if (auto refused = read_plan_words(std::move(words), arguments)) return *refused;
  return answer_plan(arguments, as_json);
}

class PlanCommand : public testing::Test {
 protected:
  std::string file(const std::string& text) {
    std::string path = directory_ / "plan.json";
    std::ofstream(path) << text;
    return path;
  }

  TemporaryDirectory directory_;
};

const std::vector<std::string> three_and_one = {"make",     "--worker",  "a=100Gbit",
                                                "--worker", "b=100Gbit", "--worker",
                                                "c=12.5GB", "--helper",  "h=100Gbit"};

TEST_F(PlanCommand, WhatMakeWritesCheckAccepts) {
  const PlanAnswer made = answer(three_and_one);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(made.err,
            "workers: 3, helpers: 1\n"
            "t* 0.096 ns per byte (10.42 GB/s); with weights in 1/65536 0.002% more\n"
            "lower bound 0.096 ns per byte: no plan is faster\n"
            "uniform weights 0.096 ns per byte: 1.00 times t*\n");
  const PlanAnswer checked = answer({"check", file(made.out), "--bytes", "1GiB"});
  ASSERT_EQ(checked.status, 0) << checked.err;
  EXPECT_EQ(checked.err, "");
  EXPECT_EQ(checked.out,
            "plan \"star\", epoch 1, allreduce: 3 workers, 1 helper, 1 switch, 8 links\n"
            "\n"
            "domain \"all\": 3 workers\n"
            "operations of any size, in chunks of 262144 bytes: 4 trees\n"
            "tree  weight  share  root  levels  shape\n"
            "   3   26215  40.0%  h          1  h(a b c)\n"
            "   0   13107  20.0%  a          1  a(b c)\n"
            "   1   13107  20.0%  b          1  b(a c)\n"
            "   2   13107  20.0%  c          1  c(a b)\n"
            "load            capacity  bytes/byte    busy\n"
            "h -> switch 4  12.5 GB/s      1.2000  100.0%\n"
            "switch 4 -> h  12.5 GB/s      1.2000  100.0%\n"
            "a -> switch 4  12.5 GB/s      1.2000  100.0%\n"
            "switch 4 -> a  12.5 GB/s      1.2000  100.0%\n"
            "b -> switch 4  12.5 GB/s      1.2000  100.0%\n"
            "switch 4 -> b  12.5 GB/s      1.2000  100.0%\n"
            "c -> switch 4  12.5 GB/s      1.2000  100.0%\n"
            "switch 4 -> c  12.5 GB/s      1.2000  100.0%\n"
            "tau 0.096 ns per byte (10.42 GB/s); h -> switch 4 binds\n"
            "1073741824 bytes: 103.1 ms\n"
            "lower bound 0.096 ns per byte, says the plan: at most 0.00% from the best\n");
}

TEST_F(PlanCommand, CheckReportsTheChunksAndWindowsOfNodes) {
  EXPECT_EQ(answer({"check", file(answer(three_and_one).out)}).out.find("between nodes"),
            std::string::npos);
  auto plan = plan::read_plan(answer(three_and_one).out);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  plan::Domain& domain = plan->domains[0];
  domain.certificate.reset();
  domain.classes[0].chunk = 100'000;
  domain.classes[0].window = 20;
  domain.classes[0].trees = {{65536, {plan::kIsRoot, 0, 1, plan::kIsAbsent}, {}}};
  const auto checked = [&] { return answer({"check", file(plan::write_plan(*plan))}); };
  EXPECT_NE(
      checked().out.find("between nodes: 20 chunks of up to 98304 bytes in flight, each way\n"),
      std::string::npos)
      << checked().out;
  domain.classes[0].window = 0;
  EXPECT_NE(
      checked().out.find("between nodes: 64 chunks of up to 32768 bytes in flight, each way\n"),
      std::string::npos)
      << checked().out << "roots have a pace";
  domain.classes[0].window = 100;
  EXPECT_EQ(checked().status, 2);
  EXPECT_NE(checked().err.find("classes[0].window = 100: nodes keep memory for at most 64"),
            std::string::npos)
      << checked().err;
}

TEST_F(PlanCommand, MakeWritesAFile) {
  auto words = three_and_one;
  const std::string path = directory_ / "out.json";
  words.insert(words.end(), {"--out", path, "--chunk", "64KiB", "--epoch", "9"});
  const PlanAnswer made = answer(words);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(made.out, "");
  std::ifstream in(path);
  const auto plan = plan::read_plan(std::string(std::istreambuf_iterator<char>(in), {}));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->epoch, 9u);
  EXPECT_EQ(plan->domains[0].classes[0].chunk, 65536u);
  words[words.size() - 5] = directory_.path();
  const PlanAnswer failed = answer(words);
  EXPECT_EQ(failed.status, 1);
  EXPECT_EQ(failed.err, "tallyctl: cannot write " + directory_.path() +
                            ": Is a directory; give another --out\n");
}

TEST_F(PlanCommand, MakeRefusesToReplaceWhatItReads) {
  const std::string input = file("what was measured");
  const std::string other_name = directory_ / "link.json";
  std::filesystem::create_symlink(input, other_name);
  for (const std::string option : {"--network", "--machines", "--model"}) {
    for (const std::string& out : {input, other_name}) {
      std::vector<std::string> words = {"make", option, input, "--out", out};
      if (option == "--model") words.insert(words.end(), {"--worker", "a=1GB"});
      const PlanAnswer refused = answer(words);
      EXPECT_EQ(refused.status, 2);
      EXPECT_EQ(refused.err, "tallyctl: --out " + out + ": is the file of " + option +
                                 ", which would be lost; give another\n");
    }
  }
}

TEST_F(PlanCommand, UnevenMachinesAreComparedWithUniformWeights) {
  std::vector<std::string> words = {"make"};
  for (int i = 0; i < 8; ++i) {
    words.insert(words.end(), {"--worker", "w" + std::to_string(i) + "=100Gbit", "--helper",
                               "h" + std::to_string(i) + "=25Gbit"});
  }
  const PlanAnswer made = answer(words, true);
  ASSERT_EQ(made.status, 0) << made.err;
  const json compared = json::parse(made.err, nullptr, false);
  EXPECT_NEAR(compared.value("t_star", 0.0) / 8, 0.01474e-9, 5e-15);  // per bit
  EXPECT_NEAR(compared.value("uniform_tau", 0.0) / compared.value("t_star", 1.0), 2.71, 0.005);
  const PlanAnswer text = answer(words);
  EXPECT_NE(text.err.find(": 2.71 times t*\n"), std::string::npos) << text.err;
}

TEST_F(PlanCommand, AModelsTensorsAreInThePlan) {
  auto words = three_and_one;
  words.insert(words.end(), {"--model", "resnet50", "--type", "bf16"});
  const PlanAnswer made = answer(words);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(made.err, answer(three_and_one).err) << "the trees are those without a model";
  const auto plan = plan::read_plan(made.out);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const plan::Domain& domain = plan->domains[0];
  ASSERT_EQ(domain.tensors.size(), 161u);
  EXPECT_EQ(domain.tensors[0].tag, 0u);
  EXPECT_EQ(domain.tensors[0].bytes, 2u * 64 * 3 * 7 * 7);
  EXPECT_EQ(domain.tensors[160].tag, 160u);
  EXPECT_EQ(domain.tensors[160].bytes, 2u * 1000);
  ASSERT_EQ(domain.classes.size(), 2u);
  EXPECT_EQ(domain.classes[0].max_bytes, (1u << 20) - 1);
  EXPECT_FALSE(domain.classes[0].is_divided());
  EXPECT_TRUE(domain.classes[1].is_divided());
  ASSERT_EQ(domain.classes[0].trees.size(), domain.classes[1].trees.size());
  EXPECT_EQ(answer({"check", file(made.out)}).status, 0);

  words.insert(words.end(), {"--split", "64KiB"});
  EXPECT_EQ(plan::read_plan(answer(words).out)->domains[0].classes[0].max_bytes, 65535u);
}

TEST_F(PlanCommand, AModelComesFromAFileToo) {
  auto words = three_and_one;
  words.insert(words.end(), {"--model", file(R"({"model":"m","tensors":[["a",[2,3]],["b",[5]]],)"
                                             R"("parameters":11})")});
  const auto plan = plan::read_plan(answer(words).out);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->domains[0].tensors.size(), 2u);
  EXPECT_EQ(plan->domains[0].tensors[1].bytes, 20u);
  const auto refusal = [&](const std::vector<std::string>& more) {
    auto others = three_and_one;
    others.insert(others.end(), more.begin(), more.end());
    EXPECT_EQ(answer(others).status, 2);
    return answer(others).err;
  };
  EXPECT_EQ(
      refusal({"--model", "alexnet"}),
      "tallyctl: --model alexnet: no model \"alexnet\": there are resnet50, vgg16, bert-large, "
      "gpt2, gpt2-xl, or the path of a file\n");
  EXPECT_EQ(refusal({"--type", "bf16"}), "--type requires --model");
  EXPECT_EQ(refusal({"--model", "gpt2", "--type", "f23"}),
            "tallyctl: --type f23: must be a type like f32 or bf16\n");
  EXPECT_EQ(refusal({"--split", "1"}),
            "tallyctl: --split 1: must be a size like 1MiB, up to 1024GiB\n");
  const std::string huge =
      R"({"model":"m","tensors":[["a",[274877906944]]],"parameters":274877906944})";
  EXPECT_NE(refusal({"--model", file(huge)}).find("\"a\" has 1099511627776 bytes"),
            std::string::npos);
}

TEST_F(PlanCommand, MachinesComeFromWhatWasMeasured) {
  const auto machines = [&](const std::string& more) {
    return file(R"({"fmt":"tally-machines/1","machines":[
      {"name":"a","role":"worker","in":1.2e10,"out":1.1e10,"nic":12.5e9},
      {"name":"h","role":"helper","nic":12.5e9,"sum":9e9})" +
                more + "]}");
  };
  const PlanAnswer made =
      answer({"make", "--machines", machines(""), "--worker", "b=100Gbit", "--worker", "c=1GB"});
  ASSERT_EQ(made.status, 0) << made.err;
  const json nodes = json::parse(made.out)["nodes"];
  ASSERT_EQ(nodes.size(), 5U) << "and the switch";
  EXPECT_EQ(nodes[0]["addr"], "a");
  EXPECT_EQ(nodes[0]["in"], 1.2e10);
  EXPECT_EQ(nodes[0]["out"], 1.1e10);
  EXPECT_EQ(nodes[1]["role"], "helper");
  EXPECT_EQ(nodes[1]["out"], 12.5e9);
  EXPECT_EQ(nodes[1]["sum"], 9e9);
  const auto refusal = [&](const std::string& path, const char* worker) {
    std::vector<std::string> words = {"make", "--machines", path};
    if (worker != nullptr) words.insert(words.end(), {"--worker", worker});
    return answer(words).err;
  };
  const std::string path = machines("");
  EXPECT_EQ(refusal(path, "h=1GB"),
            "tallyctl: --worker h=1GB: another machine is called h; give each its own name\n");
  EXPECT_EQ(refusal(machines(R"(,{"name":"x","role":"helper"})"), nullptr),
            "tallyctl: --machines " + path +
                ": machine \"x\": its speed is not known: measure it (tallyctl probe), or give it "
                "\"in\" and \"out\", or \"nic\", in bytes per second\n");
  EXPECT_EQ(refusal(file(R"({"fmt":"tally-machines/1","machines":[]})"), nullptr),
            "tallyctl: plan make: no machine of the file has the role \"worker\" (cluster.role of "
            "its node), and there is no --worker NAME=SPEED; give at least one\n");
  EXPECT_EQ(refusal(path + "x", nullptr),
            "tallyctl: --machines " + path +
                "x: cannot be read: No such file or directory; give the file that tallyctl probe "
                "--out wrote\n");
  EXPECT_EQ(refusal(file("{}"), nullptr),
            "tallyctl: --machines " + path + ": fmt: missing; must be given\n");
}

TEST_F(PlanCommand, AHelperThatSumsSlowlyGetsLess) {
  const PlanAnswer made =
      answer({"make", "--worker", "a=1GB", "--worker", "b=1GB", "--worker", "c=1GB", "--worker",
              "d=1GB", "--helper", "e=1GB,sum=0.75GB", "--helper", "f=1GB,sum=750MB"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_NE(made.err.find("t* 1.263 ns"), std::string::npos) << made.err;
  EXPECT_NE(made.err.find("lower bound 1.2 ns per byte: at most 5.26% from the best"),
            std::string::npos)
      << made.err;
  const PlanAnswer checked = answer({"check", file(made.out)});
  EXPECT_NE(checked.out.find("sums of e"), std::string::npos) << checked.out;
}

TEST_F(PlanCommand, ChecksAsJson) {
  const PlanAnswer checked = answer({"check", file(answer(three_and_one).out)}, true);
  ASSERT_EQ(checked.status, 0) << checked.err;
  const json report = json::parse(checked.out, nullptr, false);
  ASSERT_TRUE(report.is_object()) << checked.out;
  EXPECT_EQ(report["method"], "star");
  const json& one = report["domains"][0]["classes"][0];
  EXPECT_EQ(one["binds"], "h -> switch 4");
  EXPECT_EQ(one["trees"].size(), 4u);
  EXPECT_EQ(one["loads"].size(), 8u);
  EXPECT_EQ(one["loads"][0]["capacity"], 12.5e9);
  EXPECT_EQ(one["predicted"]["bytes"], 256u << 20);
  EXPECT_GT(one["predicted"]["seconds"], 0.0257);
}

TEST_F(PlanCommand, MakeReportsThatNodesRefuseMoreTreesThanTheyTake) {
  std::vector<std::string> words = {"make"};
  for (int i = 0; i < 256; ++i) {
    words.insert(words.end(), {"--worker", "w" + std::to_string(i) + "=1GB"});
  }
  EXPECT_EQ(answer(words).err.find("refuses"), std::string::npos);
  EXPECT_TRUE(json::parse(answer(words, true).err)["refused"].is_null());
  words.insert(words.end(), {"--worker", "w256=1GB"});
  const PlanAnswer made = answer(words);
  EXPECT_EQ(made.status, 0) << "the simulator takes it";
  const std::string reason =
      "domain \"all\" has 257 trees, and nodes take 256: make a plan of fewer, with tallyctl plan "
      "make --network";
  EXPECT_NE(made.err.find("plan set refuses this plan: " + reason + "\n"), std::string::npos)
      << made.err;
  EXPECT_EQ(json::parse(answer(words, true).err)["refused"], reason);
  EXPECT_NE(answer({"check", file(made.out)}).err.find(reason), std::string::npos);
}

TEST_F(PlanCommand, LongTablesEndUnlessAllIsAsked) {
  std::vector<std::string> words = {"make"};
  for (int i = 0; i < 30; ++i) {
    words.insert(words.end(), {"--worker", "a-rather-long-name-" + std::to_string(i) + "=1GB"});
  }
  const std::string path = file(answer(words).out);
  const PlanAnswer brief = answer({"check", path});
  EXPECT_NE(brief.out.find("and 10 more: --all"), std::string::npos) << brief.out;
  EXPECT_NE(brief.out.find("and 40 more: --all"), std::string::npos);
  EXPECT_NE(brief.out.find(" ...)"), std::string::npos);
  const PlanAnswer all = answer({"check", path, "--all"});
  EXPECT_EQ(all.out.find("more: --all"), std::string::npos);
}

TEST_F(PlanCommand, CheckRefusesWithTheReason) {
  std::string text = answer(three_and_one).out;
  const auto replace = [&](const std::string& before, const std::string& after) {
    std::string other = text;
    return other.replace(other.find(before), before.size(), after);
  };
  const auto refusal = [&](const std::string& other) {
    const std::string path = file(other);
    const PlanAnswer checked = answer({"check", path});
    EXPECT_EQ(checked.status, 2);
    EXPECT_EQ(checked.out, "");
    EXPECT_EQ(checked.err.substr(0, path.size() + 12), "tallyctl: " + path + ": ");
    return checked.err.substr(path.size() + 12);
  };
  EXPECT_EQ(refusal("{}"), "fmt: missing; must be given\n");
  EXPECT_EQ(refusal(replace("\"w\":13107", "\"w\":13106")),
            "domains[0].classes[0].trees: their weights sum to 65535; must be 65536\n");
  EXPECT_EQ(refusal(replace("[-1,0,0,-2]", "[-1,0,-2,-2]")),
            "domains[0].classes[0].trees[0].up[2] = -2: worker 2 of the domain is missing; every "
            "tree has all of them\n");
  EXPECT_EQ(refusal(replace("\"up\":[-1,0,0,-2]", "\"up\":[-1,0,0,-2],\"down\":[1,-1,0,-2]")),
            "domains[0].classes[0].trees[0].down[1] = -1: the root must be that of up, 0\n");
  const std::string apart =
      replace("\"up\":[-1,0,0,-2]", "\"up\":[-1,0,0,-2],\"down\":[-1,0,0,-2]");
  EXPECT_EQ(answer({"check", file(apart)}).status, 0) << "nodes serve results that go another way";
  EXPECT_EQ(answer({"check", directory_ / "none"}).err,
            "tallyctl: " + (directory_ / "none") +
                ": cannot be read: No such file or directory; give a plan file\n");
  EXPECT_EQ(answer({"check", directory_.path()}).status, 2);
  const std::string path = file(text);
  EXPECT_EQ(answer({"check", path, "--bytes", "many"}).err,
            "tallyctl: --bytes many: must be a size like 256MiB\n");
  EXPECT_EQ(answer({"check", path, "--max-height", "0"}).status, 2);
  EXPECT_EQ(answer({"check", path, "--max-height", "5"}).status, 2) << "plan set takes 4 levels";
}

TEST_F(PlanCommand, MakeRefusesWithTheReason) {
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), "make");
    const PlanAnswer made = answer(words);
    EXPECT_EQ(made.status, 2);
    EXPECT_EQ(made.out, "");
    return made.err;
  };
  EXPECT_EQ(refusal({}), "tallyctl: plan make: no --worker NAME=SPEED; give at least one\n");
  EXPECT_EQ(refusal({"--helper", "h=1GB"}),
            "tallyctl: plan make: no --worker NAME=SPEED; give at least one\n");
  EXPECT_EQ(refusal({"--worker", "a"}),
            "tallyctl: --worker a: must be NAME=SPEED or NAME=SPEED,sum=SPEED, like a=100Gbit\n");
  EXPECT_EQ(refusal({"--worker", "a=fast"}),
            "tallyctl: --worker a=fast: \"fast\" is not a speed like 100Gbit or 12.5GB\n");
  EXPECT_EQ(refusal({"--helper", "a=1GB,cpu=2"}),
            "tallyctl: --helper a=1GB,cpu=2: \"cpu=2\" must be sum=SPEED, what it can sum\n");
  EXPECT_EQ(refusal({"--worker", "a=1GB,sum=2"}),
            "tallyctl: --worker a=1GB,sum=2: \"2\" is not a speed like 100Gbit or 12.5GB\n");
  EXPECT_EQ(refusal({"--worker", "a=1GB", "--helper", "a=1GB"}),
            "tallyctl: --helper a=1GB: another machine is called a; give each its own name\n");
  const std::string longest(256, 'x');
  EXPECT_EQ(answer({"make", "--worker", longest + "=1GB"}).status, 0);
  EXPECT_EQ(
      refusal({"--worker", longest + "x=1GB"}),
      "tallyctl: --worker " + longest + "x=1GB: the name has 257 bytes; must be at most 256\n");
  EXPECT_EQ(refusal({"--worker", "a=1bit"}),
            "tallyctl: plan make: nodes[0].in = 0.125: must be from 1 to 1e+15 bytes per second\n");
  EXPECT_EQ(refusal({"--worker", "a=1GB", "--chunk", "0"}),
            "tallyctl: --chunk 0: must be a size like 256KiB\n");
  EXPECT_EQ(answer({}).status, 2);  // neither make nor check
}

}  // namespace
}  // namespace tally::control
