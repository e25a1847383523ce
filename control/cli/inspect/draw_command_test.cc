// tallyctl plan draw, from its command line to what it prints.
#include "control/cli/inspect/draw_command.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "tests/support/control/inspect_fixture.h"

namespace tally::control {
namespace {

using testing::HasSubstr;

class DrawCommand : public InspectFixture {
 protected:
  // A program in place of dot.
  std::string program(const std::string& script) {
    const std::string path = file("dot", "#!/bin/sh\n" + script);
    ::chmod(path.c_str(), 0700);
    return path;
  }
};

TEST_F(DrawCommand, DrawsAllTreesWithTheirShares) {
  const PlanAnswer drawn = answer({"draw", stars("plan.json", 3, 1)});
  ASSERT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_TRUE(drawn.out.starts_with("digraph trees {\n")) << drawn.out;
  EXPECT_TRUE(drawn.out.ends_with("}\n"));
  EXPECT_THAT(drawn.out, HasSubstr("label=\"plan \\\"star\\\", domain \\\"all\\\": 4 trees\";"));
  EXPECT_THAT(drawn.out, HasSubstr("label=\"h0\\nroot of 40.0%\", shape=ellipse"));
  EXPECT_THAT(drawn.out, HasSubstr("v0 -> v3 [penwidth=2.40, label=\"40.0%\"];"));
}

TEST_F(DrawCommand, DrawsOneTreeToAFile) {
  const std::string out = directory_ / "tree.dot";
  const PlanAnswer drawn = answer({"draw", stars("plan.json", 3, 1), "--tree", "3", "--out", out});
  ASSERT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_EQ(drawn.out, "");
  std::ifstream in(out);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_THAT(text, HasSubstr("tree 3, 40.0% of the bytes"));
  EXPECT_THAT(text, HasSubstr("v0 -> v3 [penwidth=1.00];"));
  EXPECT_EQ(text.find("v1 -> v0"), std::string::npos);
}

TEST_F(DrawCommand, GivesTheTextToDotForSvg) {
  const std::string plan = stars("plan.json", 2, 0);
  const PlanAnswer drawn =
      answer({"draw", plan, "--svg", "--dot", program("echo \"<svg> $1\"; cat; echo '</svg>'")});
  ASSERT_EQ(drawn.status, 0) << drawn.err;
  EXPECT_EQ(drawn.out, "<svg> -Tsvg\n" + answer({"draw", plan}).out + "</svg>\n");
}

TEST_F(DrawCommand, NamesWhatToInstallWithoutDot) {
  const std::string none = directory_ / "none";
  const PlanAnswer drawn = answer({"draw", stars("plan.json", 2, 0), "--svg", "--dot", none});
  EXPECT_EQ(drawn.status, 1);
  EXPECT_EQ(drawn.out, "");
  EXPECT_EQ(drawn.err, "tallyctl: " + none +
                           ": cannot be started: No such file or directory; install Graphviz "
                           "(Debian: apt install graphviz), or leave out --svg and give the text "
                           "to dot on another machine\n");
}

TEST_F(DrawCommand, RefusesWithFileAndReason) {
  const std::string plan = stars("plan.json", 3, 1);
  EXPECT_EQ(answer({"draw", plan, "--tree", "4"}).err,
            "tallyctl: --tree 4: an operation of 268435456 bytes has 4 trees; give a number from 0 "
            "to 3\n");
  EXPECT_EQ(answer({"draw", plan, "--tree", "4"}).status, 2);
  EXPECT_EQ(answer({"draw", plan, "--tree", "-1"}).err, "--tree: Value -1 not in range 0 to 65535");
  EXPECT_EQ(answer({"draw", plan, "--dot", "dot"}).err, "--dot requires --svg");
  const std::string none = directory_ / "none";
  EXPECT_EQ(
      answer({"draw", none}).err,
      "tallyctl: " + none + ": cannot be read: No such file or directory; give a plan file\n");
  const std::string damaged = file("damaged.json", "{}");
  EXPECT_EQ(answer({"draw", damaged}).err,
            "tallyctl: " + damaged + ": fmt: missing; must be given\n");
  EXPECT_EQ(answer({"draw", plan, "--out", directory_.path()}).status, 1);
  const PlanAnswer same = answer({"draw", plan, "--out", plan});
  EXPECT_EQ(same.status, 2);
  EXPECT_EQ(same.err, "tallyctl: --out " + plan +
                          ": is the file of PLAN, which would be lost; give another\n");
}

}  // namespace
}  // namespace tally::control
