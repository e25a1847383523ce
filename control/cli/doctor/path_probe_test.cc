#include "control/cli/doctor/path_probe.h"

#include <algorithm>

#include "tests/support/control/fake_machine.h"

namespace tally::control::doctor {
namespace {

// A path over links: the limits that the first link and a router report, and that of a link which
// drops larger packets without a report.
class FakePath : public Prober {
 public:
  Result<std::uint32_t> mtu() override { return known; }
  Result<Answer> probe(std::uint32_t bytes) override {
    ++probes;
    if (unreachable) return Error{Status::kUnavailable, "No route to host"};
    if (bytes > known) return Answer::kTooBig;
    if (bytes > router) {
      known = router;
      return Answer::kTooBig;
    }
    if (lose_next > 0) {
      --lose_next;
      return Answer::kNothing;
    }
    return bytes <= silent_limit && answers ? Answer::kArrived : Answer::kNothing;
  }

  std::uint32_t known = 9000;
  std::uint32_t router = 65535;
  std::uint32_t silent_limit = 65535;
  bool answers = true;
  bool unreachable = false;
  int lose_next = 0;
  int probes = 0;
};

PathMtu measured(FakePath& path) {
  const auto result = measure_path(path, "10.0.0.2");
  EXPECT_TRUE(result.ok());
  return result ? *result : PathMtu{};
}

TEST(PathProbe, TheLargestPacketArrives) {
  FakePath path;
  EXPECT_EQ(measured(path).arrived, 9000u);
  EXPECT_EQ(path.probes, 1);
}

TEST(PathProbe, OneLostPacketIsSentAgain) {
  FakePath path;
  path.lose_next = 1;
  EXPECT_EQ(measured(path).arrived, 9000u);
}

TEST(PathProbe, ARoutersLimitIsTaken) {
  FakePath path;
  path.router = 1400;
  const PathMtu found = measured(path);
  EXPECT_EQ(found.mtu, 1400u);
  EXPECT_EQ(found.arrived, 1400u);
}

TEST(PathProbe, ASwitchThatSwallowsLargePacketsIsFound) {
  FakePath path;
  path.silent_limit = 1500;
  const PathMtu found = measured(path);
  EXPECT_EQ(found.mtu, 9000u);
  EXPECT_EQ(found.arrived, 1500u);
}

TEST(PathProbe, SilenceIsNoAnswerAndEnds) {
  FakePath path;
  path.answers = false;
  EXPECT_EQ(measured(path).arrived, 0u);
  EXPECT_LE(path.probes, 12);
}

TEST(PathProbe, APathThatNeverAgreesWithItselfEnds) {
  FakePath path;
  path.known = 70000;  // always more than fits
  path.router = 65534;
  path.silent_limit = 0;
  EXPECT_LE(measured(path).mtu, 65535u);
}

TEST(PathProbe, WhatCannotBeReachedIsAnError) {
  FakePath path;
  path.unreachable = true;
  EXPECT_FALSE(measure_path(path, "10.0.0.2").ok());
}

TEST(PathProbe, ToThisMachineEverythingArrives) {
  const auto paths = measure_paths("127.0.0.1");
  ASSERT_TRUE(paths.ok()) << paths.error().message;
  ASSERT_EQ(paths->size(), 1u);
  EXPECT_EQ(paths->front().address, "127.0.0.1");
  EXPECT_EQ(paths->front().arrived, paths->front().mtu) << paths->front().failure;
  EXPECT_FALSE(measure_paths("there.is.no.such.host.invalid").ok());
}

using PathTest = MachineTest;

TEST_F(PathTest, WithoutAHostThereIsNoFinding) {
  EXPECT_TRUE(check_path(machine()).empty());
}

TEST_F(PathTest, ReportsWhatWasVerifiedAndWhatWasNot) {
  path_to_ = "node7";
  system_.paths = std::vector<PathMtu>{{"10.0.0.7", 9000, 9000, ""}};
  expect(about(check_path, "10.0.0.7"), Level::kOk, "9000 bytes arrive (verified from here");
  system_.paths = std::vector<PathMtu>{{"10.0.0.7", 1500, 1500, ""}};
  expect(about(check_path, "10.0.0.7"), Level::kNote, "1500 bytes arrive", "mtu 9000");
  system_.paths = std::vector<PathMtu>{{"10.0.0.7", 9000, 0, ""}};
  expect(about(check_path, "10.0.0.7"), Level::kNote, "not verified",
         "ping -M do -c 3 -s 8972 10.0.0.7");
  system_.paths = std::vector<PathMtu>{{"fd00::7", 9000, 0, ""}};
  expect(about(check_path, "fd00::7"), Level::kNote, "not verified", "-s 8952 fd00::7");
}

TEST_F(PathTest, LossesOfLargePacketsAreAProblem) {
  path_to_ = "node7";
  system_.paths =
      std::vector<PathMtu>{{"10.0.0.7", 9000, 1500, ""}, {"fd00::7", 0, 0, "connect: no route"}};
  expect(about(check_path, "10.0.0.7"), Level::kProblem, "9000 bytes get lost", "mtu 1500");
  expect(about(check_path, "fd00::7"), Level::kWarning, "no route", "ip route get fd00::7");
  system_.paths = Error{Status::kUnavailable, "Name or service not known"};
  expect(about(check_path, "node7"), Level::kProblem, "not known", "--path");
}

}  // namespace
}  // namespace tally::control::doctor
