// The programs as their users meet them: started, asked, stopped, and told nonsense.
// $TALLYD and $TALLYCTL name them.
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
#include <thread>
#include <utility>
#include <vector>

#include "control/process_under_test.h"
#include "control/rpc/test_support.h"

namespace tally::control {
namespace {

using nlohmann::json;
using rpc::TemporaryDirectory;

constexpr uid_t kNobody = 65534;

class TallydTest : public testing::Test {
 protected:
  void SetUp() override {
    if (program("TALLYD").empty() || program("TALLYCTL").empty()) {
      GTEST_SKIP() << "TALLYD and TALLYCTL do not name the programs";
    }
  }

  std::vector<std::string> tallyd(std::initializer_list<std::string> more) const {
    std::vector<std::string> words = {program("TALLYD"), "--listen", address_, "--ready-fd",
                                      std::to_string(kReadyFd)};
    words.insert(words.end(), more);
    return words;
  }
  std::vector<std::string> tallyctl(std::initializer_list<std::string> more) const {
    std::vector<std::string> words = {program("TALLYCTL"), "--address", address_};
    words.insert(words.end(), more);
    return words;
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_ / "tallyd.sock";
  std::string address_ = "unix:" + path_;
};

TEST_F(TallydTest, ServesUntilItIsToldToEnd) {
  Process node(tallyd({"--shards", "3", "--isa", "scalar"}));  // more shards than cores, maybe
  ASSERT_TRUE(node.ready()) << node.last_words();
  Process status(tallyctl({"--json", "status"}));
  ASSERT_EQ(status.wait(), 0) << status.said();
  const json answer = json::parse(status.said(), nullptr, false);
  EXPECT_EQ(answer.value("shards", 0), 3) << status.said();
  EXPECT_EQ(answer.value("isa", ""), "scalar");
  EXPECT_EQ(answer.value("address", ""), address_);
  for (const char* command : {"status", "jobs", "stats", "ranks"}) {
    Process asked(tallyctl({command}));
    EXPECT_EQ(asked.wait(), 0) << asked.said();
    EXPECT_FALSE(asked.said().empty());
  }
  Process nobody(tallyctl({"ranks", "bert"}));
  EXPECT_EQ(nobody.wait(), 1);
  EXPECT_TRUE(nobody.said("no job \"bert\" runs here")) << nobody.said();
  node.signal(SIGTERM);
  EXPECT_EQ(node.wait(), 0) << node.said();
  EXPECT_TRUE(node.said("event=ready")) << node.said();
  EXPECT_TRUE(node.said("event=stopped")) << node.said();
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
}

TEST_F(TallydTest, AnOrdinaryUserCanRunIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "the test runs as an ordinary user: all others show it";
  if (::chmod(directory_.path().c_str(), 0777) != 0) GTEST_SKIP() << "chmod";
  const std::string copy = directory_ / "tallyd";  // where everybody may execute it
  std::ofstream(copy, std::ios::binary)
      << std::ifstream(program("TALLYD"), std::ios::binary).rdbuf();
  ASSERT_EQ(::chmod(copy.c_str(), 0755), 0);
  auto words = tallyd({"--shards", "2"});
  words[0] = copy;
  Process node(words, kNobody);
  ASSERT_TRUE(node.ready()) << node.last_words();
  node.signal(SIGINT);
  EXPECT_EQ(node.wait(), 0) << node.said();
}

TEST_F(TallydTest, TheSecondOneIsRefusedAndTheFirstGoesOn) {
  Process node(tallyd({"--shards", "1"}));
  ASSERT_TRUE(node.ready());
  Process second(tallyd({"--shards", "1"}));
  EXPECT_EQ(second.wait(), 1);
  EXPECT_TRUE(second.said("another tallyd answers at " + path_)) << second.said();
  Process status(tallyctl({"status"}));
  EXPECT_EQ(status.wait(), 0) << status.said();
}

TEST_F(TallydTest, StartsAgainAfterACrash) {
  {
    Process node(tallyd({"--shards", "1"}));
    ASSERT_TRUE(node.ready());
    node.signal(SIGKILL);
    EXPECT_EQ(node.wait(), 1000 + SIGKILL);
  }
  EXPECT_EQ(::access(path_.c_str(), F_OK), 0);
  Process node(tallyd({"--shards", "1"}));
  EXPECT_TRUE(node.ready()) << node.last_words();
}

TEST_F(TallydTest, EndsByItselfWhenNobodyHasASession) {
  Process node(tallyd({"--exit-when-idle", "1"}));
  ASSERT_TRUE(node.ready());
  EXPECT_EQ(node.wait(), 0);
  EXPECT_TRUE(node.said("event=stopping idle_s=1")) << node.said();
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
}

TEST_F(TallydTest, WhoHasComeFindsItAsLongAsAfterASession) {
  Process node(tallyd({"--exit-when-idle", "2"}));
  ASSERT_TRUE(node.ready());
  for (int looks = 0; looks < 5; ++looks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
    Process status(tallyctl({"status"}));
    ASSERT_EQ(status.wait(), 0) << status.said();
  }
  EXPECT_EQ(node.wait(), 0);
  EXPECT_TRUE(node.said("event=stopping idle_s=2")) << node.said();
}

TEST_F(TallydTest, WrongUsageIsTwoAndSaysWhat) {
  const std::string file = directory_ / "t.toml";
  std::ofstream(file) << "[shards]\npoll = \"fast\"\n";
  Process config(tallyd({"--config", file}));
  EXPECT_EQ(config.wait(), 2);
  EXPECT_TRUE(config.said(file + ":2:8: shards.poll = \"fast\"")) << config.said();
  Process flag(tallyd({"--shards", "many"}));
  EXPECT_EQ(flag.wait(), 2);
  EXPECT_TRUE(flag.said("--shards many: must be")) << flag.said();
  Process unknown(tallyd({"--no-such-flag"}));
  EXPECT_EQ(unknown.wait(), 2);
  Process command(tallyctl({"dance"}));
  EXPECT_EQ(command.wait(), 2);
  Process help({program("TALLYD"), "--help"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_TRUE(help.said("--window-bytes SIZE")) << help.said();
}

TEST_F(TallydTest, CheckConfigPrintsWhatIsInForce) {
  Process check(tallyd({"--window-bytes", "1MiB", "--check-config"}));
  EXPECT_EQ(check.wait(), 0);
  EXPECT_TRUE(check.said("window_bytes = \"1MiB\"")) << check.said();
  EXPECT_TRUE(check.said("listen = \"" + address_ + "\"")) << check.said();
}

TEST_F(TallydTest, TheDoctorExaminesThisMachineAndItsNode) {
  Process node(tallyd({"--shards", "1"}));
  ASSERT_TRUE(node.ready()) << node.last_words();
  Process examined(tallyctl({"--json", "doctor", "--path", "127.0.0.1"}));
  const int status = examined.wait();
  const json report = json::parse(examined.said(), nullptr, false);
  ASSERT_TRUE(report.is_object()) << examined.said();
  EXPECT_EQ(status, report.value("problems", 0) == 0 ? 0 : 1) << examined.said();
  std::map<std::string, std::string> levels;
  for (const json& finding : report["findings"]) {
    levels[finding.value("check", "")] = finding.value("level", "");
    EXPECT_EQ(finding.value("level", "") == "ok", finding.value("remedy", "").empty()) << finding;
  }
  EXPECT_EQ(levels.size(), 17u) << examined.said();  // every check has something to say
  EXPECT_EQ(levels["node"], "ok") << examined.said();
  EXPECT_EQ(levels["path"], "ok") << examined.said();
  Process text(tallyctl({"doctor", "--check", "node", "--check", "memlock"}));
  EXPECT_NE(text.wait(), 2);
  EXPECT_TRUE(text.said("ok       node     node at " + address_ + ": answers")) << text.said();
  EXPECT_TRUE(text.said("memory that may be locked")) << text.said();
  EXPECT_FALSE(text.said("tcp_rmem")) << text.said();
}

TEST_F(TallydTest, TheDoctorMissesANodeThatWasNamed) {
  Process named(tallyctl({"doctor", "--check", "node"}));
  EXPECT_EQ(named.wait(), 1);
  EXPECT_TRUE(named.said("problem  node")) << named.said();
  EXPECT_TRUE(named.said("1 problem, 0 warnings, 0 notes, 0 ok")) << named.said();
}

TEST_F(TallydTest, TheDoctorRefusesWhatItDoesNotUnderstand) {
  const std::string file = directory_ / "t.toml";
  std::ofstream(file) << "[shards]\npoll = \"fast\"\n";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--check", "mtuu"}, "--check mtuu: there is no such check, did you mean mtu?"},
      {{"--check", "path"}, "--check path: needs --path HOST"},
      {{"--chek"}, "--chek"},
      {{"--path"}, "--path: 1 required HOST missing"},
      {{"--watch", "1"}, "--watch: doctor looks once"},
      {{"--config", file}, file + ":2:8: shards.poll = \"fast\""},
  };
  for (const auto& [words, answer] : cases) {
    std::vector<std::string> command = {program("TALLYCTL"), "doctor"};
    command.insert(command.end(), words.begin(), words.end());
    Process asked(command);
    EXPECT_EQ(asked.wait(), 2) << answer;
    EXPECT_TRUE(asked.said(answer)) << asked.said();
  }
  Process help({program("TALLYCTL"), "doctor", "--help"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_TRUE(help.said("--path HOST")) << help.said();
  Process list({program("TALLYCTL"), "doctor", "--list"});
  EXPECT_EQ(list.wait(), 0);
  EXPECT_TRUE(list.said("hugepages  hugepages of 2 MiB")) << list.said();
}

TEST_F(TallydTest, PlansNeedNoNode) {
  const std::string file = directory_ / "plan.json";
  Process make(
      tallyctl({"plan", "make", "--worker", "a=100Gbit", "--worker", "b=25Gbit", "--out", file}));
  EXPECT_EQ(make.wait(), 0);
  EXPECT_TRUE(make.said("no plan is faster")) << make.said();
  Process check(tallyctl({"plan", "check", file, "--bytes", "1MiB"}));
  EXPECT_EQ(check.wait(), 0);
  EXPECT_TRUE(check.said("1048576 bytes: ")) << check.said();
  std::ofstream(file) << "{}";
  Process refused(tallyctl({"plan", "check", file}));
  EXPECT_EQ(refused.wait(), 2);
  EXPECT_TRUE(refused.said(file + ": fmt: missing")) << refused.said();
  Process watched(tallyctl({"--watch", "1", "plan", "check", file}));
  EXPECT_EQ(watched.wait(), 2);
  Process help(tallyctl({"plan", "make", "--help"}));
  EXPECT_EQ(help.wait(), 0);
  EXPECT_TRUE(help.said("--worker NAME=SPEED")) << help.said();
}

TEST_F(TallydTest, WhatCannotRunIsOneAndSaysWhat) {
  std::ofstream(path_) << "not a socket";
  Process file(tallyd({"--shards", "1"}));
  EXPECT_EQ(file.wait(), 1);
  EXPECT_TRUE(file.said("is not a socket")) << file.said();
  Process nobody(tallyctl({"status"}));
  EXPECT_EQ(nobody.wait(), 1);
  EXPECT_TRUE(nobody.said("tallyctl: unavailable: ")) << nobody.said();
}

}  // namespace
}  // namespace tally::control
