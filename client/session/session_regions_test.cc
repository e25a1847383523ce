#include "client/session/session_regions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "dataplane/transport/shm/memory.h"
#include "tests/support/client/recorded_version.h"

namespace tally::client {
namespace {

using nlohmann::json;

// Node a carries the plan. Node b is of a version that is next or has become the current one.
class SessionRegionsTest : public ::testing::Test {
 protected:
  static std::string path(const char* name) {
    return "/tmp/tally-session-regions-" + std::to_string(::getpid()) + "-" + name + ".sock";
  }
  json answer(bool refuses, const std::string& method, const json& params) {
    if (refuses) return refusal(Status::kRefused, "no room for it");
    if (method != "region.register") return {{"result", json::object()}};
    return {{"result", {{"region", params.value("region", ++numbers_)}}}};
  }
  static std::size_t count(const ScriptedNode& node, const std::string& method) {
    const auto requests = node.requests();
    return static_cast<std::size_t>(std::count_if(
        requests.begin(), requests.end(), [&](const auto& one) { return one.first == method; }));
  }
  static std::unique_ptr<Region> region() { return Region::allocate(4096).value(); }

  std::atomic<std::uint32_t> numbers_ = 10;
  std::atomic<bool> a_refuses_ = false, b_refuses_ = false;
  ScriptedNode a_{path("a"), [this](const auto& method, const json& params) {
                    return answer(a_refuses_ && method == "region.register", method, params);
                  }};
  ScriptedNode b_{path("b"), [this](const auto& method, const json& params) {
                    return answer(b_refuses_ && method == "region.register", method, params);
                  }};
  RecordedVersion first_{a_}, second_{b_};
  PlanVersions versions_{std::move(first_.version)};
  SessionRegions regions_;
};

TEST_F(SessionRegionsTest, AllVersionsKnowARegionByOneNumber) {
  versions_.add_next(std::move(second_.version));
  const auto added = regions_.add(versions_, region());
  ASSERT_TRUE(added.ok());
  EXPECT_FALSE(added->refused_by_next);
  EXPECT_EQ(added->region->id, 11U);
  EXPECT_EQ(b_.requests().back().second.at("region"), 11);
  EXPECT_TRUE(regions_.owns(added->region));
  EXPECT_TRUE(regions_.remove(versions_, *added->region, false).ok());
  EXPECT_EQ(first_.connection->offered, 0);
  EXPECT_EQ(second_.connection->offered, 0);
  EXPECT_FALSE(regions_.owns(added->region));
}

TEST_F(SessionRegionsTest, ReportsThatTheNextVersionRefuses) {
  versions_.add_next(std::move(second_.version));
  b_refuses_ = true;
  const auto added = regions_.add(versions_, region());
  ASSERT_TRUE(added.ok()) << "the version that carries the operations has it";
  ASSERT_TRUE(added->refused_by_next);
  EXPECT_EQ(added->refused_by_next->message, "no room for it");
}

TEST_F(SessionRegionsTest, ARegionThatTheOldVersionRefusesIsRemoved) {
  versions_.add_next(std::move(second_.version));
  PlanSwitch plans;
  versions_.go_over(plans);
  a_refuses_ = true;
  EXPECT_EQ(regions_.add(versions_, region()).status(), Status::kRefused);
  EXPECT_EQ(count(b_, "region.deregister"), 1U);
  EXPECT_EQ(second_.connection->offered, 0);
}

TEST_F(SessionRegionsTest, SideRegionsAreUsedAgain) {
  Region* const first = regions_.side_region(versions_, 100)->region;
  EXPECT_FALSE(regions_.owns(first)) << "it is not the caller's";
  EXPECT_EQ(regions_.side_region(versions_, 4096)->region, first) << "few sizes";
  first->outstanding = 1;
  Region* const second = regions_.side_region(versions_, 100)->region;
  EXPECT_NE(second, first);
  EXPECT_EQ(regions_.side_region(versions_, 5000)->region->bytes(), 8192U);
  EXPECT_EQ(count(a_, "region.register"), 3U);
}

TEST_F(SessionRegionsTest, OneMoreVersionGetsAllRegions) {
  ASSERT_TRUE(regions_.add(versions_, region()).ok());
  ASSERT_TRUE(regions_.side_region(versions_, 100).ok());
  PlanVersion& next = versions_.add_next(std::move(second_.version));
  EXPECT_TRUE(regions_.add_all_to(next.nodes, monotonic_now() + 5 * kSecond).ok());
  EXPECT_EQ(second_.connection->offered, 2);
  EXPECT_EQ(b_.requests().back().second.at("region"), 12);
  regions_.withdraw_all_from(next.nodes);
  EXPECT_EQ(second_.connection->offered, 0);
  EXPECT_EQ(count(b_, "region.deregister"), 0U);
}

TEST_F(SessionRegionsTest, AsksForRoomOnlyForLargeRegions) {
  EXPECT_TRUE(SessionRegions::room_for(versions_, 4096).ok());
  EXPECT_EQ(count(a_, "region.check"), 0U);
  EXPECT_TRUE(SessionRegions::room_for(versions_, 1 << 20).ok());
  EXPECT_EQ(count(a_, "region.check"), 1U);
}

TEST_F(SessionRegionsTest, MovesOnlyWhatOperationsUse) {
  Region* const used = regions_.add(versions_, region())->region;
  Region* const idle = regions_.add(versions_, region())->region;
  const Mapping of_used = transport::shm::map_peer(used->fd(), 4096, "region").value();
  const Mapping of_idle = transport::shm::map_peer(idle->fd(), 4096, "region").value();
  used->outstanding = 1;
  EXPECT_TRUE(regions_.move_used().ok());
  of_used.data()[0] = of_idle.data()[0] = std::byte{9};
  EXPECT_EQ(used->data()[0], std::byte{0});
  EXPECT_EQ(idle->data()[0], std::byte{9});
}

TEST_F(SessionRegionsTest, ReplacesOnlyRegionsWithResults) {
  Region* const inputs = regions_.add(versions_, region())->region;
  Region* const results = regions_.add(versions_, region())->region;
  inputs->outstanding = results->outstanding = 1;
  const int before = inputs->fd();
  const auto use = [&](RegionUse of_results) {
    return [=](const Region& one) { return &one == results ? of_results : RegionUse::kOnlyRead; };
  };
  EXPECT_FALSE(regions_.replace_used(use(RegionUse::kPart)).ok());
  const Mapping old = transport::shm::map_peer(results->fd(), 4096, "region").value();
  EXPECT_TRUE(regions_.replace_used(use(RegionUse::kWhole)).ok());
  old.data()[0] = std::byte{9};
  EXPECT_EQ(results->data()[0], std::byte{0});
  EXPECT_EQ(inputs->fd(), before);
}

}  // namespace
}  // namespace tally::client
