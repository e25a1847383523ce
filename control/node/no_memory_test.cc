// A node that runs out of memory at every allocation that a request takes, on the control thread
// and on a shard: the request is refused, and nothing of it is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/connections/shm_connection.h"
#include "client/memory/region.h"
#include "tests/support/control/node_fixture.h"
#include "tests/support/failing_new.h"

namespace tally::control {
namespace {

using ::testing::HasSubstr;

class NoMemory : public NodeNetwork {
 protected:
  // Of the first shard. The second has enough.
  void fail_on_shard(std::size_t n) {
    shards_->on_each(
        [n](std::uint32_t i, auto&, auto&) { testing::fail_allocation(i == 0 ? n : 0); }, [] {});
  }
  bool expect_empty() {
    EXPECT_TRUE(until([this] { return !node_->has_sessions(); }));
    return shards_turn() &&
           asked(99, "node.status", json::object())->result().value("jobs", 1) == 0;
  }
  static json hello(std::size_t n) {
    return {{"version", 1}, {"job", "job-" + std::to_string(n)}, {"ranks", 2}, {"rank", 0}};
  }
  static std::vector<UniqueFd> copies(const std::vector<int>& fds) {
    std::vector<UniqueFd> copied;
    for (const int fd : fds) copied.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    return copied;
  }
  struct Handled {
    std::string error;
    json result;
    std::size_t allocations = 0;  // of this thread, that may fail
  };
  // The n-th allocation fails; 0: none. The request is destroyed after it: nlohmann's json
  // allocates there, which cannot fail.
  Handled handle(std::size_t n, const char* method, const json& params,
                 std::vector<UniqueFd> fds = {}) {
    constexpr std::size_t kMany = 1'000'000;
    auto answer = std::make_shared<Answer>();
    rpc::Request request{method, params, std::move(fds)};
    rpc::Reply reply{answer, 1, true};
    testing::fail_allocation(n == 0 ? kMany : n);
    static_cast<void>(within_memory([&] { node_->handle(1, request, std::move(reply)); }));
    const std::size_t made = kMany - testing::allocations_left;
    testing::fail_allocation(0);
    if (!until([&] { return answer->has_come(); })) return {"no answer", {}};
    if (!answer->error().empty()) return {answer->error(), {}};
    return {"", answer->result(), made};
  }
  // Has each allocation of `request` fail in turn: it is refused, or done all the same and then
  // undone, and nothing is left. How often it was refused.
  template <typename Request, typename Undo, typename ExpectNothing>
  std::size_t fail_each(const Request& request, const Undo& undo, const ExpectNothing& nothing) {
    EXPECT_EQ(undo(request(0).result), "");  // tables have grown then
    std::size_t refused = 0;
    for (std::size_t n = 1; !HasFailure(); ++n) {
      const Handled whole = request(0);
      EXPECT_EQ(whole.error + undo(whole.result), "") << n;
      if (n > whole.allocations) break;
      const Handled tried = request(n);
      if (tried.error.empty()) {
        EXPECT_EQ(undo(tried.result), "") << n;
      } else {
        ++refused;
      }
      nothing(n);
    }
    return refused;
  }
  json job() { return asked(99, "node.jobs", json::object())->result().at(0); }
};

TEST_F(NoMemory, AJobForWhoseTablesAShardHasNoneIsRefusedAndGone) {
  std::size_t n = 1;
  for (; n < 1000; ++n) {
    fail_on_shard(n);
    const auto opened = asked(n, "session.open", hello(n));
    fail_on_shard(0);
    if (opened->error().empty()) break;
    EXPECT_THAT(opened->error(), HasSubstr("no memory for the tables of job"));
    ASSERT_TRUE(until([&] { return expect_empty(); })) << n;
  }
  EXPECT_GT(n, 10U);
  EXPECT_LT(n, 1000U);
  EXPECT_EQ(asked(n, "session.close", json::object())->error(), "");
}

TEST_F(NoMemory, APlacementForWhichAShardHasNoneIsRefusedAndGone) {
  JobAssignment placement;
  placement.id = 1;
  placement.job = "placed";
  placement.ranks = 2;
  placement.plan = protocol::even_partition(1, 1 << 16);
  placement.trees = {0};
  placement.vertices = {protocol::star(0, 2)};
  std::optional<Outcome> outcome;
  fail_on_shard(1);
  node_->place(placement, [&](const Outcome& placed) { outcome = placed; });
  EXPECT_TRUE(until([&] { return outcome.has_value(); }));
  fail_on_shard(0);
  EXPECT_EQ(outcome->status(), Status::kNoMemory);
  EXPECT_TRUE(until([&] { return expect_empty(); }));
}

TEST_F(NoMemory, OtherRanksThatCameMeanwhileAreRefusedToo) {
  fail_on_shard(1);
  const auto first = ask(1, "session.open", hello(1));
  json second_hello = hello(1);
  second_hello["rank"] = 1;
  const auto second = ask(2, "session.open", second_hello);
  EXPECT_TRUE(until([&] { return first->has_come() && second->has_come(); }));
  fail_on_shard(0);
  EXPECT_THAT(first->error(), HasSubstr("no memory for the tables"));
  EXPECT_THAT(second->error(), HasSubstr("no memory for the tables"));
  EXPECT_TRUE(until([&] { return expect_empty(); }));
}

TEST_F(NoMemory, ASessionThatAShardHasNoneForIsNotAttached) {
  std::size_t n = 1;
  for (; n < 1000; ++n) {
    EXPECT_EQ(asked(n, "session.open", hello(n))->error(), "");
    const auto link = client::ShmConnection::make({kShards, kCredit}, here_.get()).value();
    fail_on_shard(n);
    const auto attached = asked(n, "session.attach", json::object(), copies(link->node_fds()));
    fail_on_shard(0);
    EXPECT_EQ(asked(n, "session.close", json::object())->error(), "");
    if (attached->error().empty()) break;
    EXPECT_THAT(attached->error(), HasSubstr("no memory for the session"));
    ASSERT_TRUE(until([&] { return expect_empty(); })) << n;
  }
  EXPECT_GT(n, 1U);
  EXPECT_LT(n, 1000U);
}

// std::stable_sort does without its buffer: what fails there refuses nobody.
TEST_F(NoMemory, ASessionForWhichTheControlThreadHasNoneIsNotAdmitted) {
  const auto open = [this](std::size_t n) { return handle(n, "session.open", hello(1)); };
  const auto undo = [this](const json&) {
    return asked(1, "session.close", json::object())->error();
  };
  EXPECT_GT(fail_each(open, undo, [this](std::size_t n) { EXPECT_TRUE(expect_empty()) << n; }),
            20U);
}

TEST_F(NoMemory, ARegionThatThereIsNoneForLeavesNothing) {
  asked(1, "session.open", hello(1));
  const auto link = client::ShmConnection::make({kShards, kCredit}, here_.get()).value();
  ASSERT_EQ(asked(1, "session.attach", json::object(), copies(link->node_fds()))->error(), "");
  const auto region = client::Region::allocate(4096).value();
  const auto offer = link->offer(*region).value();
  const auto add = [&](std::size_t n) {
    return handle(n, "region.register", offer.params, copies(offer.fds));
  };
  const auto undo = [this](const json& added) {
    return asked(1, "region.deregister", {{"region", added["region"]}})->error();
  };
  const auto expect_none = [this](std::size_t n) {
    EXPECT_TRUE(shards_turn());
    EXPECT_EQ(job()["regions"], 0) << n;
    EXPECT_EQ(job()["region_bytes"], 0) << n;
  };
  EXPECT_GT(fail_each(add, undo, expect_none), 5U);
}

TEST_F(NoMemory, ACompletionNeedsNone) {
  bool completed = false;
  const auto completion = std::make_shared<Completion>(
      *io_, [&completed](const Outcome& done) { completed = done.ok(); });
  testing::fail_allocation(1);
  completion->post();
  const bool untouched = testing::allocations_left == 1;
  testing::fail_allocation(0);
  EXPECT_TRUE(untouched);
  EXPECT_TRUE(until([&completed] { return completed; }));
}

}  // namespace
}  // namespace tally::control
