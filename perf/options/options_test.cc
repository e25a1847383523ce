#include "perf/options/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "net/address.h"

namespace tally::perf {
namespace {

std::variant<Options, int> parse(std::vector<std::string> words) {
  words.insert(words.begin(), "tally-perf");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

Options parsed(std::vector<std::string> words) {
  return std::get<Options>(parse(std::move(words)));
}

TEST(Options, TheExampleOfTheHelp) {
  const Options options =
      parsed({"allreduce", "--spawn", "2", "--min-bytes", "4K", "--max-bytes", "256M", "--type",
              "f32", "--iters", "50", "--check", "--json", "out.json"});
  EXPECT_EQ(options.kind, TALLY_ALL_REDUCE);
  EXPECT_EQ(options.spawn, 2u);
  EXPECT_EQ(options.min_bytes, 4096u);
  EXPECT_EQ(options.max_bytes, 256u << 20);
  EXPECT_EQ(options.iterations, 50u);
  EXPECT_TRUE(options.check);
  EXPECT_EQ(options.json, "out.json");
  EXPECT_EQ(make_rows(options).value().size(), 17u);
}

TEST(Options, ListsAndModels) {
  const Options options =
      parsed({"reduce", "--spawn", "4", "--model", "resnet50,gpt2", "--mode", "tensors,buckets",
              "--type", "f16,i8", "--op", "all", "--memory", "adopt", "--shuffle", "9"});
  EXPECT_EQ(options.types, (std::vector{ElementType::kF16, ElementType::kI8}));
  EXPECT_EQ(options.operations.size(), 4u);
  EXPECT_EQ(options.memory, Memory::kAdopt);
  EXPECT_TRUE(options.shuffle);
  const auto rows = make_rows(options).value();
  ASSERT_EQ(rows.size(), 2u * 4 * 2 * 2);
  EXPECT_EQ(rows[0].mode, "tensors");
  EXPECT_EQ(rows[1].mode, "buckets");
  EXPECT_EQ(rows[0].bytes(), 2 * 25'557'032u);
}

// The flag, then the environment, then what clients do without both.
TEST(Options, TheAddressIsTheFlagsOrTheEnvironments) {
  const std::vector<std::string> lone = {"allreduce", "--rank", "0", "--ranks", "2"};
  ::unsetenv("TALLY_ADDRESS");
  EXPECT_EQ(parsed(lone).address, net::default_connect_address());
  EXPECT_EQ(parsed({"allreduce", "--spawn", "2"}).address, "") << "it starts a node";
  ::setenv("TALLY_ADDRESS", "unix:/environment", 1);
  EXPECT_EQ(parsed(lone).address, "unix:/environment");
  EXPECT_EQ(parsed({"allreduce", "--spawn", "2"}).address, "unix:/environment");
  EXPECT_EQ(parsed({"allreduce", "--join", "h:7", "--rank", "0"}).address, "");
  std::vector<std::string> flag = lone;
  flag.insert(flag.end(), {"--address", "unix:/flag"});
  EXPECT_EQ(parsed(flag).address, "unix:/flag");
  EXPECT_EQ(std::get<int>(parse({"allreduce", "--spawn", "2", "--shards", "2"})), kExitUsage);
  ::unsetenv("TALLY_ADDRESS");
}

TEST(Options, ContradictionsAreRefused) {
  const std::vector<std::vector<std::string>> bad = {
      {},
      {"allreduce"},
      {"sum", "--spawn", "2"},
      {"allreduce", "--spawn", "x"},
      {"allreduce", "--spawn", "2", "--rank", "0"},
      {"allreduce", "--rank", "2", "--ranks", "2", "--address", "unix:/x"},
      {"allreduce", "--rank", "0", "--ranks", "2", "--address", "unix:/x", "--ceiling"},
      {"allreduce", "--spawn", "2", "--min-bytes", "8K", "--max-bytes", "4K"},
      {"allreduce", "--spawn", "2", "--min-bytes", "0"},
      {"allreduce", "--spawn", "2", "--min-bytes", "4Q"},
      {"allreduce", "--spawn", "2", "--factor", "1"},
      {"allreduce", "--spawn", "2", "--iters", "0"},
      {"allreduce", "--spawn", "2", "--type", "f8"},
      {"allreduce", "--spawn", "2", "--op", "xor"},
      {"allreduce", "--spawn", "2", "--mode", "layers"},
      {"allreduce", "--spawn", "2", "--memory", "disk"},
      {"allreduce", "--spawn", "2", "--misalign", "2"},
      {"allreduce", "--spawn", "1025"},
      {"allreduce", "--spawn", "2", "--shards", "2", "--address", "unix:/x"},
      {"allreduce", "--spawn", "2", "--transport", "pigeon"},
      {"allreduce", "--spawn", "2", "--transport", "fabric:eth0"},
      {"allreduce", "--spawn", "2", "--duration", "-1"},
      {"allreduce", "--spawn", "2", "--latency", "--inflight", "2"},
      {"allreduce", "--spawn", "2", "--latency", "--stream"},
      {"allreduce", "--spawn", "2", "--stream", "--model", "gpt2"},
      {"allreduce", "--spawn", "2", "--stream", "--in-place"},
      {"allreduce", "--spawn", "2", "--stream", "--check-each"},
      {"allreduce", "--spawn", "2", "--inflight", "100000"},
      {"allreduce", "--spawn", "2", "--serve", "h:7"},
      {"allreduce", "--serve", "h:7"},
      {"allreduce", "--serve", "h:7", "--ranks", "2", "--join", "h:7"},
      {"allreduce", "--serve", "h:7", "--ranks", "2", "--rank", "1,1"},
      {"allreduce", "--serve", "h:7", "--ranks", "2", "--rank", "2"},
      {"allreduce", "--serve", "h:7", "--ranks", "2", "--address", "unix:/x"},
      {"allreduce", "--serve", "h:7", "--ranks", "2", "--join-timeout", "0"},
      {"allreduce", "--join", "h:7"},
      {"allreduce", "--join", "h:7", "--rank", "5000"},
      {"allreduce", "--rank", "0,1", "--ranks", "2", "--address", "unix:/x"},
      {"broadcast", "--spawn", "2", "--root", "2"},
      {"broadcast", "--spawn", "2", "--nonfinite"},
      {"allreduce", "--spawn", "2", "--gradients", "whole"},
      {"allreduce", "--spawn", "2", "--gradients", "integers", "--nonfinite"},
      {"allgather", "--spawn", "2", "--stats"},
  };
  for (const auto& words : bad) {
    const auto outcome = parse(words);
    ASSERT_TRUE(std::holds_alternative<int>(outcome)) << testing::PrintToString(words);
    EXPECT_EQ(std::get<int>(outcome), kExitUsage) << testing::PrintToString(words);
  }
  EXPECT_EQ(std::get<int>(parse({"--help"})), 0);
}

TEST(Options, HelpAndSuggestionsNameTheSimulator) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(std::get<int>(parse({"--help"})), 0);
  EXPECT_NE(::testing::internal::GetCapturedStdout().find("  sim "), std::string::npos);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(std::get<int>(parse({"simm"})), kExitUsage);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("did you mean \"sim\"?"),
            std::string::npos);
}

TEST(Options, HostsAndTheirWorkers) {
  const Options server =
      parsed({"allreduce", "--serve", "*:7800", "--ranks", "4", "--rank", "0,2", "--duration",
              "1.5", "--transport", "verbs", "--stream", "--inflight", "8", "--report-gbits"});
  EXPECT_EQ(server.ranks_here, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(server.duration_s, 1.5);
  EXPECT_EQ(server.transport, "verbs");
  EXPECT_TRUE(server.stream);
  EXPECT_TRUE(server.gbits);
  EXPECT_EQ(parsed({"allreduce", "--serve", "h:1", "--ranks", "2"}).ranks_here.size(), 0u);
  const Options guest = parsed({"allreduce", "--join", "h:7800", "--rank", "3"});
  EXPECT_EQ(guest.join, "h:7800");
  EXPECT_EQ(guest.transport, "auto");
  const Options device = parsed({"allreduce", "--spawn", "2", "--transport", "verbs:mlx5_0:1:3"});
  EXPECT_EQ(device.transport, "verbs:mlx5_0:1:3");
}

TEST(Options, OneOfManyIsItsRank) {
  const Options options =
      parsed({"allreduce", "--address", "unix:/x", "--rank", "1", "--ranks", "2"});
  EXPECT_EQ(options.rank, 1u);
}

TEST(Options, AnUnknownModelIsAnErrorWithTheKnownOnes) {
  const auto rows = make_rows(parsed({"allreduce", "--spawn", "2", "--model", "lenet"}));
  ASSERT_FALSE(rows.ok());
  EXPECT_NE(rows.error().message.find("vgg16"), std::string::npos);
}

TEST(Options, OptionsTravelAsJson) {
  const Options options = parsed({"reducescatter", "--spawn", "3", "--in-place", "--misalign", "8",
                                  "--check-each", "--seed", "11", "--memory", "stage", "--timeout",
                                  "7", "--transport", "fabric", "--duration", "3"});
  const Options copy = options_from_json(to_json(options));
  EXPECT_EQ(to_json(copy), to_json(options));
  EXPECT_EQ(copy.kind, TALLY_REDUCE_SCATTER);
  EXPECT_EQ(copy.memory, Memory::kStage);
  EXPECT_TRUE(copy.check_each);
  EXPECT_EQ(copy.misalign, 8u);
  EXPECT_EQ(copy.timeout_s, 7);
  EXPECT_EQ(copy.transport, "fabric");
  EXPECT_EQ(copy.duration_s, 3);
}

}  // namespace
}  // namespace tally::perf
