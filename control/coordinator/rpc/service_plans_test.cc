// Plans that the coordinator makes by itself, on another thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <semaphore>

#include "control/plan/json/plan_json.h"
#include "tests/support/control/racked_members.h"
#include "tests/support/control/service_fixture.h"

namespace tally::control {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

class ServicePlansTest : public ServiceTest {
 protected:
  ServicePlansTest() {
    CoordinatorServiceOptions options;
    options.peer_of = [](rpc::ConnectionId) { return tally::testing::operator_peer(); };
    options.access = &access_;
    options.plan_for_racks = [this](const plan::MachineFile&) {
      ++begun_;
      may_end_.acquire();
      return made_;
    };
    planning_.emplace(std::move(options), store_, io_, [](auto, auto) {});
  }
  ~ServicePlansTest() override { may_end_.release(kMostPlans); }

  std::shared_ptr<Answer> ask(rpc::ConnectionId connection, const char* method,
                              json params = json::object()) {
    auto answer = std::make_shared<Answer>();
    planning_->handle(connection, {method, std::move(params), {}}, {answer, 1, true});
    return answer;
  }
  void join_all() {
    const char* const names[] = {"a", "b", "c", "d"};
    for (rpc::ConnectionId i = 0; i < 4; ++i) {
      json self = changed(changed(node(names[i]), "role", "worker"), "rack", i < 2 ? "r1" : "r2");
      self["rack_speed"] = 1'000'000'000;
      self["host"] = names[i];
      ASSERT_EQ(ask(i + 1, "cluster.join", self)->error(), "");
    }
  }
  std::string source() {
    const json shown = ask(9, "plan.show")->result();
    return shown.is_object() ? shown.value("source", "") : "";
  }
  // Runs the control thread until the condition holds; returns false after 5 s.
  template <typename Condition>
  bool runs_until(const Condition& condition) {
    for (int i = 0; i < 500; ++i) {
      if (condition()) return true;
      run_for(milliseconds(10));
    }
    return false;
  }

  static constexpr int kMostPlans = 16;

  Result<plan::Plan> made_ = trees_of_two_racks();
  std::atomic<int> begun_ = 0;
  std::counting_semaphore<2 * kMostPlans> may_end_{0};
  std::optional<CoordinatorService> planning_;
};

TEST_F(ServicePlansTest, StarsAreInForceUntilThePlanIsMade) {
  join_all();
  ASSERT_TRUE(runs_until([&] { return begun_ == 1; }));
  EXPECT_EQ(source(), "closed form") << "the control thread does not wait for the plan";
  EXPECT_EQ(ask(9, "cluster.nodes")->result()[3]["rack"], "r2");
  may_end_.release(kMostPlans);
  // The first plan was for the first two members alone.
  EXPECT_TRUE(runs_until([&] { return source() == "racks"; }));
  EXPECT_EQ(begun_, 2);
  const json shown = ask(9, "plan.show")->result();
  EXPECT_EQ(plan::read_plan(shown["text"].get<std::string>())->method, "by hand");
}

TEST_F(ServicePlansTest, AFailureLeavesStarsInForce) {
  made_ = Error{Status::kRefused, "no"};
  may_end_.release(kMostPlans);
  join_all();
  ASSERT_TRUE(runs_until([&] { return begun_ == 2; }));
  run_for(milliseconds(50));
  EXPECT_EQ(source(), "closed form");
  EXPECT_EQ(begun_, 2) << "it would fail again";
}

TEST_F(ServicePlansTest, APlanOfAnEarlierTermIsDropped) {
  join_all();
  ASSERT_TRUE(runs_until([&] { return begun_ == 1; }));
  HeldStore other;
  planning_->begin_term(other, 1);
  may_end_.release(kMostPlans);
  run_for(milliseconds(50));
  EXPECT_EQ(source(), "") << "no node has joined";
  planning_->end_term("the test ends");
}

TEST_F(ServicePlansTest, RefusesARackWithTheNameOfTheSwitchAboveRacks) {
  const json self = changed(node("a"), "rack", "core");
  EXPECT_THAT(ask(1, "cluster.join", self)->error(), HasSubstr("cluster.rack"));
}

}  // namespace
}  // namespace tally::control
