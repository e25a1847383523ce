#include "perf/measure/breakdown.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "perf/measure/session.h"

namespace tally::perf {
namespace {

NodeTotals totals() {
  return {.parts = 10,
          .bytes = 40'000,
          .waiting = 20'000,
          .queueing = 1'000,
          .pulling = 2'000,
          .summing = 8'000,
          .pushing = 3'000,
          .cycles_per_ns = 2.5,
          .times_last = {1, 9, 0},
          .lateness = {500, 36'000, 0}};
}

TEST(Breakdown, StagesAndWakingAddUpToTheOperation) {
  // 10 operations of 3 ranks that took 4 us each.
  const Breakdown b = break_down(totals(), 30, 120'000);
  EXPECT_DOUBLE_EQ(b.total, 4);
  EXPECT_DOUBLE_EQ(b.waiting, 2);
  EXPECT_DOUBLE_EQ(b.queueing, 0.1);
  EXPECT_DOUBLE_EQ(b.pulling, 0.2);
  EXPECT_DOUBLE_EQ(b.summing, 0.8);
  EXPECT_DOUBLE_EQ(b.pushing, 0.3);
  EXPECT_NEAR(b.waking, 0.6, 1e-9);
  EXPECT_DOUBLE_EQ(b.cycles_per_byte, 0.5);
  ASSERT_EQ(b.ranks.size(), 3u);
  EXPECT_EQ(b.ranks[1].times_last, 9u);
  EXPECT_DOUBLE_EQ(b.ranks[1].mean_us, 4);
  EXPECT_DOUBLE_EQ(b.ranks[2].mean_us, 0);
  EXPECT_EQ(latest_rank(b), "r1 90% 4.0us");
}

TEST(Breakdown, CountsBetweenTwoMoments) {
  NodeTotals later = totals();
  later.parts = 25;
  later.waiting += 700;
  later.times_last[2] = 4;
  later.lateness[2] = 44;
  const NodeTotals grown = later.since(totals());
  EXPECT_EQ(grown.parts, 15u);
  EXPECT_EQ(grown.bytes, 0u);
  EXPECT_EQ(grown.waiting, 700);
  EXPECT_EQ(grown.summing, 0);
  EXPECT_EQ(grown.times_last, (std::vector<std::uint64_t>{0, 0, 4}));
  EXPECT_EQ(grown.lateness, (std::vector<Nanos>{0, 0, 44}));
  EXPECT_EQ(grown.cycles_per_ns, 2.5);
}

TEST(Breakdown, ABreakdownOfNothingIsEmpty) {
  EXPECT_TRUE(break_down({}, 5, 100).ranks.empty());
  EXPECT_EQ(latest_rank({}), "-");
}

TEST(Breakdown, TotalsTravelAsJson) {
  const NodeTotals copy = node_totals_from_json(to_json(totals()));
  EXPECT_EQ(to_json(copy), to_json(totals()));
  EXPECT_EQ(copy.lateness[1], 36'000);
}

// A node of which nothing is known but its answer to the first request.
class AnsweringNode {
 public:
  explicit AnsweringNode(std::string answer) : listener_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    thread_ = std::jthread([this, answer = std::move(answer)] {
      const UniqueFd peer(::accept(listener_.get(), nullptr, nullptr));
      char request[4096];
      EXPECT_GT(::read(peer.get(), request, sizeof request), 0);
      EXPECT_EQ(::write(peer.get(), answer.data(), answer.size()),
                static_cast<ssize_t>(answer.size()));
    });
  }
  ~AnsweringNode() {
    thread_.join();
    ::unlink(path_.c_str());
  }

  std::string address() const { return "unix:" + path_; }

 private:
  std::string path_ = "/tmp/tally-breakdown-" + std::to_string(::getpid());
  UniqueFd listener_;
  std::jthread thread_;
};

std::string failure_of(const std::string& answer) {
  AnsweringNode node(answer);
  Options options;
  options.address = node.address();
  options.job = "x";
  try {
    NodeMetrics(options).read();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "none";
}

TEST(Breakdown, ReportsANodeThatIsTooOld) {
  EXPECT_EQ(failure_of(R"({"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no method",)"
                       R"("data":{"status":2,"name":"unsupported"}}})"
                       "\n"),
            "--breakdown: the node does not know node.metrics, it is older than this tally-perf: "
            "install matching releases, or leave --breakdown out");
}

TEST(Breakdown, AnAnswerThatMakesNoSenseIsAnError) {
  EXPECT_EQ(failure_of(R"({"jsonrpc":"2.0","id":1,"result":{"times":{"parts":"many"}}})"
                       "\n")
                .substr(0, 26),
            "--breakdown: node.metrics:");
}

}  // namespace
}  // namespace tally::perf
