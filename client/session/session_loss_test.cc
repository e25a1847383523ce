#include "client/session/session_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/client/recorded_version.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// A node that cannot be fenced off, and an operation of which the region cannot move, because an
// adapter reaches it.
class SessionLossTest : public ::testing::Test {
 protected:
  SessionLossTest() {
    options_.address = "somewhere";
    options_.log = [this](int, const std::string& text) { logged_ += text + "\n"; };
    auto* registration = reinterpret_cast<ibv_mr*>(&logged_);  // never looked into
    fixed_ = add(Region::registered(*registration, nullptr, 4096, 0x1000));
    movable_ = add(Region::allocate(4096).value());
    RecordedVersion::post(versions_.now(), 7);
    connection_->fenced = false;
    loss_.begin(Status::kNodeLost, "it stopped", options_);
  }
  Region* add(std::unique_ptr<Region> region) {
    return regions_.add(versions_, std::move(region)).value().region;
  }
  void end_access() { loss_.end_access(versions_, regions_, monotonic_now(), options_); }
  bool completes() {
    Finished finished;
    return versions_.now().book.take(finished) && finished.verdict.status == Status::kNodeLost;
  }

  ScriptedNode node_{"/tmp/tally-session-loss-" + std::to_string(::getpid()) + ".sock",
                     [number = 0](const std::string&, const json&) mutable -> json {
                       return {{"result", {{"region", ++number}}}};
                     }};
  RecordedVersion made_{node_};
  RecordingConnection* connection_ = made_.connection;
  PlanVersions versions_{std::move(made_.version)};
  SessionRegions regions_;
  SessionOptions options_;
  std::string logged_;
  Region* fixed_ = nullptr;
  Region* movable_ = nullptr;
  SessionLoss loss_;
};

TEST_F(SessionLossTest, GivesTheReasonWhyTheSessionIsOver) {
  EXPECT_EQ(loss_.lost()->message, "session with somewhere: it stopped; open a new session");
  EXPECT_THAT(logged_, HasSubstr(loss_.lost()->message));
  EXPECT_EQ(*loss_.reason_of(Status::kNodeLost), "it stopped");
  EXPECT_EQ(loss_.reason_of(Status::kCancelled), nullptr) << "it ended for another reason";
  EXPECT_EQ(SessionLoss().reason_of(Status::kNodeLost), nullptr);
}

TEST_F(SessionLossTest, OperationsEndOnceTheNodeIsFenced) {
  connection_->fenced = true;
  fixed_->outstanding = 1;
  end_access();
  EXPECT_FALSE(loss_.held_back());
  EXPECT_TRUE(completes());
}

TEST_F(SessionLossTest, OperationsEndOnceTheirMemoryHasMoved) {
  movable_->outstanding = 1;
  end_access();
  EXPECT_FALSE(loss_.held_back());
  EXPECT_TRUE(completes());
}

TEST_F(SessionLossTest, HoldsOperationsBackUntilTheNodeIsFenced) {
  fixed_->outstanding = 1;
  end_access();
  ASSERT_TRUE(loss_.held_back());
  EXPECT_THAT(loss_.held_back()->message, HasSubstr("1 operations keep their buffers"));
  EXPECT_FALSE(completes());
  EXPECT_FALSE(loss_.try_again(versions_, regions_));
  EXPECT_FALSE(completes());
  connection_->fenced = true;
  EXPECT_TRUE(loss_.try_again(versions_, regions_));
  EXPECT_FALSE(loss_.held_back());
  EXPECT_TRUE(completes());
}

}  // namespace
}  // namespace tally::client
