// The programs as their users meet them: started, asked, stopped, and given wrong arguments.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/tallyd.h"

namespace tally::control {
namespace {

using nlohmann::json;
using tally::testing::Process;
using tally::testing::Tallyd;

constexpr uid_t kNobody = 65534;

class TallydTest : public ::testing::Test {
 protected:
  std::vector<std::string> tallyctl(std::initializer_list<std::string> more) const {
    std::vector<std::string> words = {TALLYCTL, "--address", node_.address()};
    words.insert(words.end(), more);
    return words;
  }

  Tallyd node_;
  std::string path_ = node_ / "tallyd.sock";
};

TEST_F(TallydTest, ServesUntilASignalEndsIt) {
  node_.start({"--shards", "3", "--isa", "scalar"});  // more shards than cores, maybe
  Process status(tallyctl({"--json", "status"}));
  ASSERT_EQ(status.wait(), 0);
  const json answer = json::parse(status.output(), nullptr, false);
  EXPECT_EQ(answer.value("shards", 0), 3);
  EXPECT_EQ(answer.value("isa", ""), "scalar");
  EXPECT_EQ(answer.value("address", ""), node_.address());
  EXPECT_EQ(answer.at("timeouts").value("change_ms", 0), 30'000);
  for (const char* command : {"status", "jobs", "stats", "ranks"}) {
    Process asked(tallyctl({command}));
    EXPECT_EQ(asked.wait(), 0);
    EXPECT_FALSE(asked.output().empty());
  }
  Process nobody(tallyctl({"ranks", "bert"}));
  EXPECT_EQ(nobody.wait(), 1);
  EXPECT_TRUE(nobody.printed("no job \"bert\" runs here"));
  node_.stop();
  EXPECT_TRUE(node_->printed("event=fault-timeouts fault_ms=60000 deadline_ms=60000"));
  EXPECT_TRUE(node_->printed("event=ready"));
  EXPECT_TRUE(node_->printed("event=stopped"));
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
}

TEST_F(TallydTest, AnOrdinaryUserCanRunIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "the test runs as an ordinary user: all others show it";
  if (::chmod((node_ / ".").c_str(), 0777) != 0) GTEST_SKIP() << "chmod";
  const std::string copy = node_ / "tallyd";  // where everybody may execute it
  std::ofstream(copy, std::ios::binary) << std::ifstream(TALLYD, std::ios::binary).rdbuf();
  ASSERT_EQ(::chmod(copy.c_str(), 0755), 0);
  auto words = node_.command({"--shards", "2"});
  words[0] = copy;
  Process node(words, {}, kNobody);
  ASSERT_EQ(node.line(), "ready");
  node.signal(SIGINT);
  EXPECT_EQ(node.wait(), 0);
}

TEST_F(TallydTest, TheSecondOneIsRefusedAndTheFirstGoesOn) {
  node_.start({"--shards", "1"});
  Process second(node_.command({"--shards", "1"}));
  EXPECT_EQ(second.wait(), 1);
  EXPECT_TRUE(second.printed("another tallyd answers at " + path_));
  Process status(tallyctl({"status"}));
  EXPECT_EQ(status.wait(), 0);
}

TEST_F(TallydTest, StartsAgainAfterACrash) {
  node_.start({"--shards", "1"});
  node_->signal(SIGKILL);
  EXPECT_EQ(node_->wait(), 128 + SIGKILL);
  EXPECT_EQ(::access(path_.c_str(), F_OK), 0);
  node_.start({"--shards", "1"});
}

TEST_F(TallydTest, EndsByItselfWhenNobodyHasASession) {
  node_.start({"--exit-when-idle", "1"});
  EXPECT_EQ(node_->wait(), 0);
  EXPECT_TRUE(node_->printed("event=stopping idle_s=1"));
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
}

// The connections follow each other without a pause, so the node never has no use for 2 s.
TEST_F(TallydTest, ConnectionsWithoutASessionKeepItRunning) {
  node_.start({"--exit-when-idle", "2"});
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(3500);
  while (std::chrono::steady_clock::now() < end) {
    Process status(tallyctl({"status"}));
    ASSERT_EQ(status.wait(), 0);
  }
  EXPECT_EQ(node_->wait(), 0);
  EXPECT_TRUE(node_->printed("event=stopping idle_s=2"));
}

TEST_F(TallydTest, WrongUsageExitsWithTwoAndTheMistake) {
  const std::string file = node_ / "t.toml";
  std::ofstream(file) << "[shards]\npoll = \"fast\"\n";
  Process config(node_.command({"--config", file}));
  EXPECT_EQ(config.wait(), 2);
  EXPECT_TRUE(config.printed(file + ":2:8: shards.poll = \"fast\""));
  Process flag(node_.command({"--shards", "many"}));
  EXPECT_EQ(flag.wait(), 2);
  EXPECT_TRUE(flag.printed("--shards many: must be"));
  Process unknown(node_.command({"--no-such-flag"}));
  EXPECT_EQ(unknown.wait(), 2);
  Process command(tallyctl({"dance"}));
  EXPECT_EQ(command.wait(), 2);
  Process help({TALLYD, "--help"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_TRUE(help.printed("--window-bytes SIZE"));
}

TEST_F(TallydTest, CheckConfigPrintsWhatIsInForce) {
  Process check(node_.command({"--window-bytes", "1MiB", "--check-config"}));
  EXPECT_EQ(check.wait(), 0);
  EXPECT_TRUE(check.printed("window_bytes = \"1MiB\""));
  EXPECT_TRUE(check.printed("listen = \"" + node_.address() + "\""));
}

TEST_F(TallydTest, TheDoctorExaminesThisMachineAndItsNode) {
  node_.start({"--shards", "1"});
  Process examined(tallyctl({"--json", "doctor", "--path", "127.0.0.1"}));
  const int status = examined.wait();
  const json report = json::parse(examined.output(), nullptr, false);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(status, report.value("problems", 0) == 0 ? 0 : 1);
  std::map<std::string, std::string> levels;
  for (const json& finding : report["findings"]) {
    levels[finding.value("check", "")] = finding.value("level", "");
    EXPECT_EQ(finding.value("level", "") == "ok", finding.value("remedy", "").empty()) << finding;
  }
  EXPECT_EQ(levels.size(), 18u);  // every check has something to say
  EXPECT_EQ(levels["node"], "ok");
  EXPECT_EQ(levels["path"], "ok");
  Process text(tallyctl({"doctor", "--check", "node", "--check", "memlock"}));
  EXPECT_NE(text.wait(), 2);
  EXPECT_TRUE(text.printed("ok       node     node at " + node_.address() + ": answers"));
  EXPECT_TRUE(text.printed("memory that may be locked"));
  EXPECT_FALSE(text.printed("tcp_rmem"));
}

TEST_F(TallydTest, TheDoctorMissesANodeThatWasNamed) {
  Process named(tallyctl({"doctor", "--check", "node"}));
  EXPECT_EQ(named.wait(), 1);
  EXPECT_TRUE(named.printed("problem  node"));
  EXPECT_TRUE(named.printed("1 problem, 0 warnings, 0 notes, 0 ok"));
}

TEST_F(TallydTest, TheDoctorRefusesWhatItDoesNotUnderstand) {
  const std::string file = node_ / "t.toml";
  std::ofstream(file) << "[shards]\npoll = \"fast\"\n";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--check", "mtuu"}, "--check mtuu: there is no such check; did you mean \"mtu\"?"},
      {{"--check", "path"}, "--check path: needs --path HOST"},
      {{"--chek"}, "--chek"},
      {{"--path"}, "--path: 1 required HOST missing"},
      {{"--watch", "1"}, "--watch: doctor looks once"},
      {{"--config", file}, file + ":2:8: shards.poll = \"fast\""},
  };
  for (const auto& [words, answer] : cases) {
    std::vector<std::string> command = {TALLYCTL, "doctor"};
    command.insert(command.end(), words.begin(), words.end());
    Process asked(command);
    EXPECT_EQ(asked.wait(), 2) << answer;
    EXPECT_TRUE(asked.printed(answer));
  }
  Process help({TALLYCTL, "doctor", "--help"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_TRUE(help.printed("--path HOST"));
  Process list({TALLYCTL, "doctor", "--list"});
  EXPECT_EQ(list.wait(), 0);
  EXPECT_TRUE(list.printed("hugepages  hugepages of 2 MiB"));
}

TEST_F(TallydTest, PlansNeedNoNode) {
  const std::string file = node_ / "plan.json";
  Process make(
      tallyctl({"plan", "make", "--worker", "a=100Gbit", "--worker", "b=25Gbit", "--out", file}));
  EXPECT_EQ(make.wait(), 0);
  EXPECT_TRUE(make.printed("no plan is faster"));
  Process check(tallyctl({"plan", "check", file, "--bytes", "1MiB"}));
  EXPECT_EQ(check.wait(), 0);
  EXPECT_TRUE(check.printed("1048576 bytes: "));
  std::ofstream(file) << "{}";
  Process refused(tallyctl({"plan", "check", file}));
  EXPECT_EQ(refused.wait(), 2);
  EXPECT_TRUE(refused.printed(file + ": fmt: missing"));
  Process watched(tallyctl({"--watch", "1", "plan", "check", file}));
  EXPECT_EQ(watched.wait(), 2);
  Process help(tallyctl({"plan", "make", "--help"}));
  EXPECT_EQ(help.wait(), 0);
  EXPECT_TRUE(help.printed("--worker NAME=SPEED"));
}

TEST_F(TallydTest, AFailureToRunExitsWithOneAndTheReason) {
  std::ofstream(path_) << "not a socket";
  Process file(node_.command({"--shards", "1"}));
  EXPECT_EQ(file.wait(), 1);
  EXPECT_TRUE(file.printed("is not a socket"));
  Process nobody(tallyctl({"status"}));
  EXPECT_EQ(nobody.wait(), 1);
  EXPECT_TRUE(nobody.printed("tallyctl: unavailable: "));
}

}  // namespace
}  // namespace tally::control
