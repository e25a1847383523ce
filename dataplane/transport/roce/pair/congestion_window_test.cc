#include "dataplane/transport/roce/pair/congestion_window.h"

#include <gtest/gtest.h>

namespace tally::transport::roce {
namespace {

TEST(RoceCongestionWindow, HalvesOncePerRoundTrip) {
  CongestionWindow window(64);
  window.congested(1'000);
  EXPECT_EQ(window.packets(), 32U);
  window.arrived(31);
  window.congested(1'000 + CongestionWindow::kCalm);
  EXPECT_EQ(window.packets(), 32U) << "the round trip is not over";
  window.arrived(1);
  window.congested(1'000 + CongestionWindow::kCalm - 1);
  EXPECT_EQ(window.packets(), 33U) << "signs of the same congestion";
  window.arrived(1);
  window.congested(1'000 + CongestionWindow::kCalm);
  EXPECT_EQ(window.packets(), 16U);
}

TEST(RoceCongestionWindow, SignsWithoutArrivalsAreOfOneCongestion) {
  CongestionWindow window(64);
  for (Nanos now = 1; now < 100 * CongestionWindow::kCalm; now += CongestionWindow::kCalm) {
    window.congested(now);
  }
  EXPECT_EQ(window.packets(), 32U);
}

TEST(RoceCongestionWindow, GrowsByAPacketForEachWindowThatArrives) {
  CongestionWindow window(8);
  window.congested(1);
  EXPECT_EQ(window.packets(), CongestionWindow::kLeast);
  window.arrived(3);
  EXPECT_EQ(window.packets(), 4U);
  window.arrived(1);
  EXPECT_EQ(window.packets(), 5U);
  for (int i = 0; i < 100; ++i) window.arrived(1);
  EXPECT_EQ(window.packets(), 8U) << "at most what it began with";
}

}  // namespace
}  // namespace tally::transport::roce
