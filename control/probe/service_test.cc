// The methods probe.*: who may use them, what is refused, and a measurement between two nodes.
#include "control/probe/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "control/probe/nic.h"
#include "tests/support/net/rpc_test_support.h"

namespace tally::control::probe {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr auto kTimeout = std::chrono::seconds(30);

struct Answers : rpc::ReplySink {
  void answer(std::string line) override { last = json::parse(line, nullptr, false); }
  json last;
};

class ProbeServiceTest : public ::testing::Test {
 protected:
  static ProbeOptions options() {
    return {.host = "127.0.0.1",
            .kernels = summation::kernels(summation::Isa::kScalar),
            .shards = 2,
            .window = 1 << 20};
  }
  ProbeService make(ProbeOptions with) { return ProbeService(std::move(with), io_); }
  // Until there is an answer.
  json ask(ProbeService& service, const char* method, json params) {
    auto answers = begin(service, method, std::move(params));
    const auto end = std::chrono::steady_clock::now() + kTimeout;
    while (answers->last.is_null() && std::chrono::steady_clock::now() < end) {
      io_.restart();
      io_.run_for(std::chrono::milliseconds(5));
    }
    return answers->last;
  }
  std::shared_ptr<Answers> begin(ProbeService& service, const char* method, json params) {
    auto answers = std::make_shared<Answers>();
    rpc::Request request;
    request.method = method;
    request.params = std::move(params);
    service.handle(request, rpc::Reply(answers, 1, true));
    return answers;
  }
  static std::string error_of(const json& answer) {
    const auto error = answer.find("error");
    return error == answer.end() ? "" : error->value("message", "");
  }

  asio::io_context io_;
};

TEST_F(ProbeServiceTest, RefusesParametersOutOfBounds) {
  ProbeService service = make(options());
  const std::pair<const char*, json> cases[] = {
      {"probe.serve", {{"streams", 0}}},
      {"probe.serve", {{"streams", 257}}},
      {"probe.serve", {{"streams", 1}, {"measure_ms", 10'001}}},
      {"probe.serve", {{"streams", 1}, {"warm_up_ms", 2'001}}},
      {"probe.serve", {{"streams", 1}, {"max_bytes", 1ULL << 39}}},
      {"probe.serve", {{"streams", 1}, {"other", 1}}},
      {"probe.machine", {{"inputs", 65}}},
      {"probe.run", json::object()},
      {"probe.run", {{"to", json::array()}}},
      {"probe.run", {{"to", json::array({7})}}},
      {"probe.run", {{"to", json::array({{{"host", "h"}, {"port", 0}, {"key", "k"}}})}}},
      {"probe.run", {{"to", json::array({{{"host", "h"}, {"port", 7}, {"key", "short"}}})}}},
  };
  for (const auto& [method, params] : cases) {
    EXPECT_NE(error_of(ask(service, method, params)), "") << method << params;
  }
  EXPECT_THAT(error_of(ask(service, "probe.other", {})), HasSubstr("no method"));
  ProbeOptions unreachable = options();
  unreachable.host = "";
  ProbeService alone = make(unreachable);
  EXPECT_THAT(error_of(ask(alone, "probe.serve", {{"streams", 1}})),
              HasSubstr("listens on no network"));
}

TEST_F(ProbeServiceTest, OneNodeSendsToAnother) {
  ProbeService receiver = make(options()), sender = make(options());
  const json pace = {{"warm_up_ms", 0}, {"measure_ms", 5000}, {"max_bytes", 4 << 20}};
  json serve = pace;
  serve.update({{"streams", 2}});
  const json offer = ask(receiver, "probe.serve", serve)["result"];
  EXPECT_THAT(error_of(ask(receiver, "probe.serve", serve)), HasSubstr("is receiving"));
  json target = offer;
  target["host"] = "127.0.0.1";
  json run = pace;
  run["to"] = json::array({target, target});
  const json answer = ask(sender, "probe.run", run);
  const json streams = answer.value("result", json::object()).value("streams", json::array());
  ASSERT_EQ(streams.size(), 2U) << answer;
  for (const json& stream : streams) {
    EXPECT_GT(stream.value("bytes", 0), 0) << stream;
    EXPECT_GT(stream.value("ns", 0), 0) << stream;
  }
}

TEST_F(ProbeServiceTest, AMachineReportsItsProperties) {
  ProbeService service = make(options());
  const json machine = ask(service, "probe.machine", {{"inputs", 4}})["result"];
  EXPECT_EQ(machine["interface"], "lo") << machine;
  EXPECT_EQ(machine["nic"], 0.0) << "nobody declares a speed of loopback";
  EXPECT_EQ(machine["shards"], 2);
  EXPECT_GT(machine["sum"].get<double>(), 0);
  const json other = ask(service, "probe.machine", {{"host", "192.0.2.1"}})["result"];
  EXPECT_EQ(other["interface"], "");
  EXPECT_THAT(other["nic_error"].get<std::string>(), HasSubstr("has the address 192.0.2.1"));
}

TEST_F(ProbeServiceTest, ItsDestructorDoesNotWaitForMissingStreams) {
  auto service = std::make_unique<ProbeService>(options(), io_);
  ask(*service, "probe.serve", {{"streams", 1}});
  service.reset();  // within the test's limit
}

TEST(Nic, HasTheSpeedThatTheKernelDeclares) {
  const rpc::TemporaryDirectory root;
  const auto folder = std::filesystem::path(root.path()) / "sys/class/net/lo";
  std::filesystem::create_directories(folder);
  EXPECT_EQ(nic_with("127.0.0.1", root.path())->speed, 0);
  for (const auto& [text, speed] : {std::pair{"100000\n", 12.5e9}, {"-1\n", 0.0}, {"", 0.0}}) {
    std::ofstream(folder / "speed") << text;
    const auto nic = nic_with("127.0.0.1", root.path());
    ASSERT_TRUE(nic.ok());
    EXPECT_EQ(nic->interface, "lo");
    EXPECT_EQ(nic->speed, speed) << text;
  }
}

}  // namespace
}  // namespace tally::control::probe
