// For the tests of the checks: a machine made of a folder of files and of fixed answers. It may be
// healthy or not.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "control/cli/doctor/checks/checks.h"
#include "tests/support/net/rpc_test_support.h"

namespace tally::control::doctor {

class FakeSystem : public System {
 public:
  Result<std::uint64_t> memory_lock_limit() override { return lock_limit; }
  Outcome may_use(const std::string& path) override {
    if (!std::filesystem::exists(path)) return Error{Status::kUnavailable, path + ": not there"};
    if (!may_use_files) return Error{Status::kRefused, path + ": Permission denied"};
    return Unit{};
  }
  Result<std::vector<int>> cpus() override { return allowed_cpus; }
  std::optional<Hardware> hardware() override { return machine_hardware; }
  std::vector<Interface> interfaces() override { return addresses; }
  Result<std::string> libfabric_version() override { return libfabric; }
  Result<VerbsLibrary> verbs_library(const VerbsWish& wish) override {
    verbs_wish = wish;
    return verbs;
  }
  Result<Statistics> ethtool_statistics(const std::string& interface) override {
    const auto found = statistics.find(interface);
    if (found == statistics.end()) return Error{Status::kUnsupported, interface + " keeps none"};
    return found->second;
  }
  Result<std::vector<PathMtu>> path_mtus(const std::string&) override { return paths; }
  Result<nlohmann::json> node_status(const std::string&, double) override { return node; }

  Result<std::uint64_t> lock_limit = UINT64_MAX;
  bool may_use_files = true;
  Result<std::vector<int>> allowed_cpus = std::vector<int>{0, 1, 2, 3};
  std::optional<Hardware> machine_hardware;
  std::vector<Interface> addresses;
  Result<std::string> libfabric = std::string("1.17");
  Result<VerbsLibrary> verbs = Error{Status::kUnsupported, "cannot be opened"};
  VerbsWish verbs_wish;  // the last wish
  std::map<std::string, Statistics> statistics;
  Result<std::vector<PathMtu>> paths = std::vector<PathMtu>{};
  Result<nlohmann::json> node = Error{Status::kUnavailable, "nobody answers"};
};

class MachineTest : public ::testing::Test {
 protected:
  void write(const std::string& path, std::string_view text) const {
    const std::filesystem::path file = directory_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(directory_ / path); }

  // Adds mlx5_0 with one active RoCE port on eth2, correctly set up.
  void add_roce_device() {
    const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
    write(port + "link_layer", "Ethernet");
    write(port + "state", "4: ACTIVE");
    write(port + "phys_state", "5: LinkUp");
    write(port + "rate", "100 Gb/sec (4X EDR)");
    add_gid(0, "fe80:0000:0000:0000:0202:c9ff:fe0d:1234", "IB/RoCE v1");
    add_gid(1, "fe80:0000:0000:0000:0202:c9ff:fe0d:1234", "RoCE v2");
    add_gid(2, "0000:0000:0000:0000:0000:ffff:0a00:0001", "IB/RoCE v1");
    add_gid(3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2");
    write(port + "gids/4", "0000:0000:0000:0000:0000:0000:0000:0000");
    write("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0");
    write("dev/infiniband/uverbs0", "");
    write("sys/class/net/eth2/mtu", "9000");
    system_.verbs = VerbsLibrary{"1.14.44.0", {{"mlx5_0", "", {4096}}}, "mlx5_0 port 1, GID 3", ""};
  }
  void add_gid(int index, std::string_view gid, std::string_view type) const {
    const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
    write(port + "gids/" + std::to_string(index), gid);
    write(port + "gid_attrs/types/" + std::to_string(index), type);
    write(port + "gid_attrs/ndevs/" + std::to_string(index), "eth2");
  }
  void remove_gids() const { remove("sys/class/infiniband/mlx5_0/ports/1/gids"); }

  Machine machine() { return {Files(directory_.path()), system_, config_, path_to_, "unix:/n"}; }
  void configure(std::string_view text) {
    const Override flags[] = {{"insecure", "true"}};
    auto config = parse_config(text, "tallyd.toml", flags);
    ASSERT_TRUE(config.ok()) << config.error().message;
    config_ = std::move(config).value();
  }

  // Returns the one finding whose `what` contains this text. Returns a problem that says so when
  // there is no such finding.
  Finding about(Findings (*check)(const Machine&), std::string_view what) {
    Finding found{Level::kProblem, "", "no finding about " + std::string(what), ""};
    int count = 0;
    for (const Finding& finding : check(machine())) {
      EXPECT_EQ(finding.level != Level::kOk, !finding.remedy.empty()) << finding.value;
      if (finding.what.find(what) == std::string::npos) continue;
      found = finding;
      ++count;
    }
    EXPECT_LE(count, 1) << "several findings about " << what;
    return found;
  }

  rpc::TemporaryDirectory directory_;
  FakeSystem system_;
  std::optional<Config> config_;
  std::string path_to_;
};

// Compares the level and a part of the value and of the remedy. Shows the whole finding on failure.
inline void expect(const Finding& finding, Level level, std::string_view value,
                   std::string_view remedy = {}) {
  const std::string shown = finding.what + ": " + finding.value + " -> " + finding.remedy;
  EXPECT_EQ(level_name(finding.level), level_name(level)) << shown;
  EXPECT_NE(finding.value.find(value), std::string::npos) << shown << "\nlacks " << value;
  EXPECT_NE(finding.remedy.find(remedy), std::string::npos) << shown << "\nlacks " << remedy;
}

}  // namespace tally::control::doctor
