#include "control/cli/inspect/graphviz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "control/plan/drawing/dot.h"
#include "tests/support/control/test_networks.h"
#include "tests/support/net/rpc_test_support.h"

namespace tally::control {
namespace {

using testing::HasSubstr;

class Graphviz : public testing::Test {
 protected:
  Result<std::string> svg(const std::string& script, const std::string& text,
                          Nanos limit = 30 * kSecond) {
    const std::string path = directory_ / "program";
    std::ofstream(path) << "#!/bin/sh\n" << script;
    ::chmod(path.c_str(), 0700);
    return svg_of(text, path, limit);
  }

  rpc::TemporaryDirectory directory_;
};

TEST_F(Graphviz, ReadsMoreThanAPipeHolds) {
  const std::string text(1 << 20, 'x');
  const auto picture = svg("cat", text);
  ASSERT_TRUE(picture.ok()) << picture.error().message;
  EXPECT_EQ(*picture, text);
}

TEST_F(Graphviz, RepeatsWhatTheProgramComplainsOf) {
  const auto failed = svg("echo 'syntax error in line 3' >&2; exit 3", "graph");
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message,
              HasSubstr("ended with status 3: syntax error in line 3\n; draw a single tree"));
  const auto killed = svg("kill -9 $$", "graph");
  ASSERT_FALSE(killed.ok());
  EXPECT_THAT(killed.error().message, HasSubstr("ended by signal 9"));
}

TEST_F(Graphviz, KillsAProgramThatNeedsTooLong) {
  const Nanos begin = monotonic_now();
  const auto late = svg("exec sleep 60", "graph", 100 * kMillisecond);
  ASSERT_FALSE(late.ok());
  EXPECT_THAT(late.error().message,
              HasSubstr("program needed more than 0.1 s; draw a single tree (--tree N)"));
  EXPECT_LT(monotonic_now() - begin, 30 * kSecond);
}

TEST_F(Graphviz, RefusesAProgramThatDrawsNothing) {
  const auto nothing = svg("exit 0", "graph");
  ASSERT_FALSE(nothing.ok());
  EXPECT_THAT(nothing.error().message, HasSubstr("drew nothing; give Graphviz's dot with --dot"));
}

TEST_F(Graphviz, DrawsTreesWhereItIsInstalled) {
  if (::system("dot -V 2> /dev/null") != 0) GTEST_SKIP() << "needs the program dot of Graphviz";
  const plan::Network network = plan::rack_network(2, 2, 1, 1e9, 1e9);
  const std::vector<plan::Tree> tree = {{plan::kWeightUnit, {2, 2, 5, 5, 5, plan::kIsRoot}, {}}};
  const auto picture = svg_of(plan::draw_trees(network, plan::workers_of(network), tree, "a tree"),
                              "dot", 30 * kSecond);
  ASSERT_TRUE(picture.ok()) << picture.error().message;
  EXPECT_THAT(*picture, HasSubstr("<svg"));
  EXPECT_THAT(*picture, HasSubstr("a tree"));
}

}  // namespace
}  // namespace tally::control
