#include "control/config/config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "control/config/config_keys.h"
#include "control/machine/memory_limit.h"

namespace tally::control {
namespace {

Result<Config> parse(std::string_view text, std::vector<Override> flags = {}) {
  return parse_config(text, "t.toml", flags);
}

std::string error_of(std::string_view text, std::vector<Override> flags = {}) {
  const auto config = parse(text, std::move(flags));
  return config.ok() ? "no error" : config.error().message;
}

TEST(Config, NothingGivenIsTheDefaults) {
  const auto config = parse("");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->listen.substr(0, 5), "unix:");
  EXPECT_GE(config->shards, 1u);
  EXPECT_LE(config->shards, 8u);
  EXPECT_EQ(config->poll, PollMode::kAdaptive);
  EXPECT_FALSE(config->isa);
  EXPECT_EQ(config->window_bytes, 4u << 20);
  EXPECT_EQ(config->split_bytes, 256u << 10);
  EXPECT_EQ(config->credit, 256u);
  EXPECT_EQ(config->default_deadline_ms, 0u);
  EXPECT_EQ(config->timeouts().deadline(), 60 * kSecond);
  EXPECT_TRUE(config->limits.open_jobs);
  EXPECT_GE(config->engine_mib, 16u);
  EXPECT_EQ(config->limits.node_region_bytes, memory_for_peers(memory_limit()));
  EXPECT_EQ(config->limits.max_region_bytes, config->limits.node_region_bytes);
}

constexpr std::string_view kEveryKey = R"(
listen = "unix:/tmp/x.sock"
listen_mode = "0660"
exit_when_idle_s = 20
log_level = "debug"
open_jobs = false
fault_timeout_s = 90
default_deadline_ms = 1500
[shards]
count = 3
poll = "busy"
isa = "avx2"
tile_bytes = "64KiB"
window_bytes = "1 MiB"
credit = 16
split_bytes = 8192
[network]
ack_timeout = 18
mtu = 1024
[memory]
hugepages = "off"
engine_mib = 32
[limits]
max_jobs = 2
max_ranks = 16
max_region_bytes = "1GiB"
node_region_bytes = "2GiB"
max_table_bytes = "3GiB"
max_slot_bytes = "5GiB"
[[jobs]]
name = "bert"
token = "s3cret"
weight = 7
ranks = 16
[[jobs]]
name = "resnet"
)";

TEST(Config, ReadsEveryKey) {
  const auto config = parse(kEveryKey);
  ;
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->listen, "unix:/tmp/x.sock");
  EXPECT_EQ(config->listen_mode, 0660u);
  EXPECT_EQ(config->exit_when_idle_s, 20u);
  EXPECT_EQ(config->log_level, log::Level::kDebug);
  EXPECT_FALSE(config->limits.open_jobs);
  EXPECT_EQ(config->timeouts().fault, 90 * kSecond);
  EXPECT_EQ(config->timeouts().deadline(), 1500 * kMillisecond);
  EXPECT_EQ(config->shards, 3u);
  EXPECT_EQ(config->poll, PollMode::kBusy);
  EXPECT_EQ(config->isa, summation::Isa::kAvx2);
  EXPECT_EQ(config->tile_bytes, 65536u);
  EXPECT_EQ(config->window_bytes, 1u << 20);
  EXPECT_EQ(config->credit, 16u);
  EXPECT_EQ(config->split_bytes, 8192u);
  EXPECT_EQ(config->ack_timeout, 18);
  EXPECT_EQ(config->mtu, 1024U);
  EXPECT_EQ(config->hugepages, engine::Hugepages::kOff);
  EXPECT_EQ(config->engine_mib, 32u);
  EXPECT_EQ(config->limits.max_jobs, 2u);
  EXPECT_EQ(config->limits.max_ranks, 16u);
  EXPECT_EQ(config->limits.max_region_bytes, 1u << 30);
  EXPECT_EQ(config->limits.max_table_bytes, 3ULL << 30);
  EXPECT_EQ(config->limits.max_slot_bytes, 5ULL << 30);
  ASSERT_EQ(config->jobs.size(), 2u);
  EXPECT_EQ(config->jobs[0].name, "bert");
  EXPECT_EQ(config->jobs[0].token, "s3cret");
  EXPECT_EQ(config->jobs[0].weight, 7u);
  EXPECT_EQ(config->jobs[0].ranks, 16u);
  EXPECT_EQ(config->jobs[1].ranks, 0u);
}

TEST(Config, FlagsOverrideTheFile) {
  const auto config =
      parse("[shards]\ncount = 2\npoll = \"busy\"\n",
            {{"shards", "5"}, {"window-bytes", "8MiB"}, {"listen", "/x"}, {"isa", "scalar"}});
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->shards, 5u);
  EXPECT_EQ(config->poll, PollMode::kBusy);
  EXPECT_EQ(config->window_bytes, 8u << 20);
  EXPECT_EQ(config->listen, "/x");
  EXPECT_EQ(config->isa, summation::Isa::kScalar);
}

TEST(Config, PacketsOfRdmaHaveFiveSizes) {
  EXPECT_EQ(parse("[network]\nmtu = 0\n")->mtu, 0U);
  EXPECT_NE(error_of("[network]\nmtu = 1500\n").find("carry 256, 512, 1024, 2048 or 4096 bytes"),
            std::string::npos);
  EXPECT_NE(error_of("[network]\nmtu = 8192\n").find("must be 0, or from 256 to 4096"),
            std::string::npos);
}

TEST(Config, ReportsTheLineTheValueAndWhatIsAllowed) {
  EXPECT_EQ(error_of("[shards]\npoll = \"fast\"\n"),
            "t.toml:2:8: shards.poll = \"fast\": must be one of \"adaptive\", \"busy\"; leave it "
            "out for \"adaptive\"");
  EXPECT_EQ(error_of("[shards]\ncount = 200"),
            "t.toml:2:9: shards.count = 200: must be 0, or from 1 to 127; leave it out for 0");
  EXPECT_EQ(error_of("", {{"shards", "two"}}),
            "--shards two: must be 0, or from 1 to 127; leave it out for 0");
  EXPECT_EQ(error_of("[shards]\nwindow_bytes = 5000"),
            "t.toml:2:16: shards.window_bytes = 5000: must be from 64KiB to 1GiB, a multiple of "
            "4KiB; leave it out for \"4MiB\"");
  EXPECT_EQ(error_of("log_level = \"warn\""),
            "t.toml:1:13: log_level = \"warn\": must be one of \"debug\", \"info\", \"warning\", "
            "\"error\"; leave it out for \"info\"");
  EXPECT_EQ(
      error_of("log_level = \"wanring\""),
      "t.toml:1:13: log_level = \"wanring\": must be one of \"debug\", \"info\", \"warning\", "
      "\"error\"; did you mean \"warning\"?; leave it out for \"info\"");
  EXPECT_EQ(error_of("listen_mode = \"0999\""),
            "t.toml:1:15: listen_mode = \"0999\": must be from 0000 to 0777, in octal digits "
            "(\"0660\"); leave it out for \"0666\"");
}

TEST(Config, NamesTheTypeWhereThatIsWrong) {
  EXPECT_EQ(
      error_of("[shards]\ncount = \"2\""),
      "t.toml:2:9: shards.count = \"2\" is a string: write a number, without quotes; leave it "
      "out for 0");
  EXPECT_EQ(
      error_of("[shards]\ncount = true"),
      "t.toml:2:9: shards.count = true is a boolean: write a number, without quotes; leave it "
      "out for 0");
  EXPECT_EQ(
      error_of("open_jobs = \"true\""),
      "t.toml:1:13: open_jobs = \"true\" is a string: write true or false, without quotes; leave "
      "it out for true");
  EXPECT_EQ(error_of("listen = 7733"),
            "t.toml:1:10: listen = 7733 is a number: write a text, in quotes");
  EXPECT_EQ(
      error_of("[network]\nverbs = false"),
      "t.toml:2:9: network.verbs = false is a boolean: write one of \"auto\", \"on\", \"off\", in "
      "quotes; leave it out for \"auto\"");
  EXPECT_EQ(
      error_of("[shards]\nwindow_bytes = true"),
      "t.toml:2:16: shards.window_bytes = true is a boolean: write a size like \"4MiB\", or bytes "
      "as a number; leave it out for \"4MiB\"");
  EXPECT_EQ(error_of("[[jobs]]\nname = \"a\"\nranks = \"4\""),
            "t.toml:3:9: jobs.ranks = \"4\" is a string: write a number, without quotes");
  EXPECT_EQ(error_of("[[jobs]]\nname = 5"),
            "t.toml:2:8: jobs.name = 5 is a number: write a text, in quotes");
}

TEST(Config, ReportsTheLinesOfValuesThatAreWrongTogether) {
  for (const auto& [text, place] : std::initializer_list<std::pair<const char*, const char*>>{
           {"log_level = \"info\"\nlisten = \"tcp:h:1\"", "t.toml:2:10: listen = "},
           {"\n\nlisten = \"nowhere\"", "t.toml:3:10: listen = \"nowhere\": address"},
           {"listen_tcp = \"7733\"", "t.toml:1:14: listen_tcp = \"7733\": write tcp:host:port"},
           {"listen_tcp = \"tcp:host\"", "t.toml:1:14: listen_tcp = \"tcp:host\": "},
           {"listen_tcp = \"tcp:*:1\"\nsecurity.insecure = true\n[network]\nrails = \"here\"",
            "t.toml:4:9: network.rails = "},
           {"[network]\nrails = \"10.0.0.1\"", "t.toml:2:9: network.rails = "},
           {"listen_tcp = \"tcp:*:1\"\nsecurity.insecure = true\n[network]\nrails = "
            "\"10.0.0.1\"\nspeeds = \"1,2\"",
            "t.toml:5:10: network.speeds = "},
           {"[shards]\ncount = 1\n[network]\nrails = \"10.0.0.1,10.0.0.2\"\n[cluster]\nname = "
            "\"listen_tcp\"",
            "t.toml:4:9: network.rails = "},
           {"[network]\nmtu = 1500", "t.toml:2:7: network.mtu is 1500"},
           {"[cluster]\ncoordinators = \"tcp:a\"", "t.toml:2:16: cluster.coordinators = "},
           {"[cluster]\nname = \"a\\nb\"", "t.toml:2:8: cluster.name has a control character"},
           {"[limits]\nmax_jobs = 1\n[[jobs]]\nname = \"a\"\n[[jobs]]\nname = \"b\"",
            "t.toml:2:12: limits.max_jobs is 1 and 2 jobs are listed"},
           {"[[jobs]]\nname = \"a\"\n[[jobs]]\nname = \"b\"\nranks = 1024\n[limits]\nmax_ranks = 8",
            "t.toml:3:1: job \"b\" has 1024 ranks"},
           {"open_jobs = false", "t.toml:1:13: open_jobs is false"}}) {
    const std::string message = error_of(text);
    EXPECT_EQ(message.substr(0, std::string(place).size()), place) << message;
  }
  EXPECT_EQ(error_of("", {{"listen-tcp", "7733"}}),
            "--listen-tcp: listen_tcp = \"7733\": write tcp:host:port, like tcp:*:7733");
}

// A value that is there and wrong is an error, never the default.
TEST(Config, RefusesValuesOfTheWrongKind) {
  for (const char* text : {"listen = 3",
                           "listen = \"\"",
                           "open_jobs = 1",
                           "open_jobs = \"true\"",
                           "default_deadline_ms = \"60000\"",
                           "fault_timeout_s = 0",
                           "fault_timeout_s = 60.5",
                           "default_deadline_ms = -1",
                           "default_deadline_ms = 1.5",
                           "log_level = true",
                           "[shards]\ncredit = {}",
                           "[shards]\ncredit = []",
                           "[shards]\ncredit = 2024-01-01",
                           "shards = 3",
                           "jobs = 3",
                           "jobs = [1]",
                           "[shards]\nwindow_bytes = \"4 parsecs\"",
                           "[shards]\nwindow_bytes = \"\"",
                           "[shards]\nwindow_bytes = \"99999999999999999999\"",
                           "[limits]\nmax_ranks = 1025",
                           "[[jobs]]\nname = \"\"",
                           "[[jobs]]\nweight = 1",
                           "[[jobs]]\nname = \"a\"\nweight = 0",
                           "[[jobs]]\nname = \"a\"\nweight = 1001",
                           "[[jobs]]\nname = \"a\\n\"",
                           "[[jobs]]\nname = \"a\"\n[[jobs]]\nname = \"a\""}) {
    const auto config = parse(text);
    ASSERT_EQ(config.status(), Status::kInvalidArgument) << text;
    EXPECT_NE(config.error().message.find("t.toml:"), std::string::npos)
        << text << ": " << config.error().message;
  }
}

TEST(Config, ExplainsWhichFaultTimeoutsThereAre) {
  EXPECT_EQ(error_of("fault_timeout_s = 9"),
            "t.toml:1:19: fault_timeout_s = 9: must be from 10 to 3600; leave it out for 60");
  EXPECT_EQ(error_of("", {{"fault-timeout", "3601"}}),
            "--fault-timeout 3601: must be from 10 to 3600; leave it out for 60");
  const auto config = parse("fault_timeout_s = 10");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->timeouts().deadline(), 10 * kSecond) << "operations have that time";
}

TEST(Config, HelpsWithUnknownKeys) {
  EXPECT_EQ(error_of("[shards]\n  cuont = 2"),
            "t.toml:2:3: unknown key \"cuont\" in [shards]: did you mean \"count\"?");
  EXPECT_EQ(error_of("credit = 2"),
            "t.toml:1:1: unknown key \"credit\": \"credit\" belongs in "
            "[shards]");
  EXPECT_EQ(error_of("[shards]\nlisten = \"x\""),
            "t.toml:2:1: unknown key \"listen\" in [shards]: \"listen\" belongs at the top of the "
            "file");
  EXPECT_EQ(error_of("[shard]\ncount = 1"),
            "t.toml:1:2: unknown key \"shard\": did you mean \"shards\"?");
  EXPECT_NE(error_of("[memory]\nx = 1").find("known here: hugepages, engine_mib"),
            std::string::npos);
  EXPECT_NE(error_of("[[jobs]]\nnmae = \"x\"").find("did you mean \"name\"?"), std::string::npos);
}

TEST(Config, ReportsWhereTheFileIsNotToml) {
  EXPECT_EQ(error_of("listen = \n").substr(0, 21), "t.toml:1:10: not TOML");
  EXPECT_EQ(error_of("a = 1\na = 2").substr(0, 9), "t.toml:2:");
  EXPECT_NE(error_of(std::string_view("\xff\0", 2)).find("not TOML"), std::string::npos);
}

TEST(Config, RefusesWhatIsWrongTogether) {
  EXPECT_NE(error_of("", {{"tile-bytes", "1MiB"}, {"window-bytes", "512KiB"}}).find("fit"),
            std::string::npos);
  EXPECT_NE(error_of("open_jobs = false").find("nobody could join"), std::string::npos);
  EXPECT_NE(error_of("[limits]\nmax_ranks = 2\n[[jobs]]\nname = \"a\"\nranks = 3").find("raise it"),
            std::string::npos);
  EXPECT_NE(error_of("", {{"listen", "nowhere"}}).find("unix:/path"), std::string::npos);
  EXPECT_NE(error_of("", {{"listen", "tcp:h:1"}}).find("listen_tcp is for that"),
            std::string::npos);
  EXPECT_NE(error_of("", {{"listen-tcp", "7733"}}).find("write tcp:host:port"), std::string::npos);
}

TEST(Config, NeverShowsATokenThatIsWrong) {
  const std::string message =
      error_of("[[jobs]]\nname=\"a\"\ntoken = \"" + std::string(200, 's') + "\"");
  EXPECT_EQ(message.find("sss"), std::string::npos) << message;
}

TEST(Config, PrintsAFileThatGivesItAgain) {
  const auto first = parse(
      "listen = \"/a\\\"b\"\nlisten_tcp = \"tcp:*:1\"\n[security]\ninsecure = "
      "true\n[network]\nprovider = "
      "\"net\"\n[shards]\ncount = 3\nwindow_bytes = 131072\n[[jobs]]\nname = "
      "\"j\\\"\"\n"
      "token = \"hush\"\nweight = 5\n");
  ASSERT_TRUE(first.ok()) << first.error().message;
  const std::string text = to_toml(*first);
  EXPECT_EQ(text.find("hush"), std::string::npos);
  const auto again = parse(text);
  ASSERT_TRUE(again.ok()) << again.error().message << "\n" << text;
  EXPECT_EQ(to_toml(*again), [&] {
    Config without = *first;
    without.jobs[0].token.clear();
    return to_toml(without);
  }());
  EXPECT_EQ(again->listen, "/a\"b");
  EXPECT_EQ(again->jobs[0].name, "j\"");
}

TEST(Config, AClusterIsDescribedByItsAddresses) {
  const auto config = parse(
      "[cluster]\ncoordinators = \"tcp:10.0.0.1:7733, unix:/run/b\"\nname = \"n1\"\n"
      "role = \"worker\"\nspeed = \"12GiB\"\nrack = \"r7\"\nrack_speed = \"40Gbit\"\n",
      {{"cluster-host", "gpu7"}});
  ASSERT_TRUE(config.ok()) << config.error().message;
  const ClusterConfig& cluster = config->cluster;
  EXPECT_EQ(cluster.addresses(), (std::vector<std::string>{"tcp:10.0.0.1:7733", "unix:/run/b"}));
  EXPECT_EQ(cluster.name + cluster.host, "n1gpu7");
  EXPECT_EQ(cluster.role, Role::kWorker);
  EXPECT_EQ(cluster.speed, 12ULL << 30);
  EXPECT_EQ(cluster.rack, "r7");
  EXPECT_EQ(cluster.rack_speed, 5'000'000'000U);
  const std::string text = to_toml(*config);
  EXPECT_TRUE(parse(text).ok()) << text;
  for (const auto& [speed, bytes] : {std::pair{"100Gbit", 12'500'000'000},
                                     {"1.379 GB/s", 1'379'000'000},
                                     {"1379325217", 1379325217}}) {
    const auto measured = parse("", {{"cluster-speed", speed}});
    ASSERT_TRUE(measured.ok()) << measured.error().message;
    EXPECT_EQ(measured->cluster.speed, static_cast<std::uint64_t>(bytes));
    EXPECT_EQ(parse(to_toml(*measured))->cluster.speed, measured->cluster.speed);
  }
  const auto alone = parse("");
  EXPECT_TRUE(alone->cluster.addresses().empty());
  EXPECT_FALSE(alone->cluster.name.empty()) << "the host's";
}

TEST(Config, AClusterThatCannotBeIsRefused) {
  EXPECT_NE(error_of("", {{"cluster", "tcp:a:1;tcp:b:1,c"}}).find("put commas between addresses"),
            std::string::npos);
  for (const char* address : {"tcp:10.0.0.1", "tcp::7733", "10.0.0.1:7733"}) {
    EXPECT_NE(error_of("", {{"cluster", address}}).find("cluster.coordinators"), std::string::npos);
  }
  EXPECT_NE(error_of("", {{"cluster-name", "a\nb"}}).find("control character"), std::string::npos);
  EXPECT_NE(error_of("", {{"cluster-speed", "fast"}}).find("like 100Gbit or 12.5GB"),
            std::string::npos);
  EXPECT_NE(error_of("", {{"cluster-rack", "core"}}).find("another name"), std::string::npos);
  EXPECT_NE(error_of("", {{"cluster-rack-speed", "1GB"}}).find("cluster.rack is not"),
            std::string::npos);
  EXPECT_NE(error_of("", {{"cluster-role", "boss"}}).find("one of \"helper\", \"worker\""),
            std::string::npos);
  EXPECT_NE(error_of("", {{"cluster-name", std::string(200, 'n')}}).find("at most 128"),
            std::string::npos);
  EXPECT_NE(error_of("[cluster]\ntoken = \"hush\"").find("security.secret_file"),
            std::string::npos);
}

TEST(Config, ANodeOnANetworkNeedsASecretOrInsecure) {
  const std::string message = error_of("listen_tcp = \"tcp:*:7733\"");
  EXPECT_NE(message.find("--secret-file FILE"), std::string::npos) << message;
  EXPECT_NE(message.find("--insecure"), std::string::npos) << message;
  EXPECT_TRUE(parse("listen_tcp = \"tcp:*:7733\"", {{"secret-file", "/etc/tally/secret"}}).ok());
  const auto insecure = parse("listen_tcp = \"tcp:*:7733\"", {{"insecure", "true"}});
  ASSERT_TRUE(insecure.ok()) << insecure.error().message;
  EXPECT_TRUE(insecure->security.insecure);
  EXPECT_NE(insecure->warnings.at(0).find("everybody"), std::string::npos);
  EXPECT_TRUE(parse("").ok()) << "a Unix socket needs nothing";
}

TEST(Config, WarnsOfATokenThatEverybodyCanRead) {
  const std::string path = "/tmp/tally-config-test-" + std::to_string(::getpid()) + ".toml";
  std::ofstream(path) << "[[jobs]]\nname = \"a\"\ntoken = \"t\"\n";
  ::chmod(path.c_str(), 0644);
  const auto open = load_config(path, {});
  ::chmod(path.c_str(), 0600);
  const auto closed = load_config(path, {});
  ::unlink(path.c_str());
  ASSERT_TRUE(open.ok() && closed.ok());
  EXPECT_EQ(open->warnings.size(), 1u);
  EXPECT_TRUE(closed->warnings.empty());
  const auto gone = load_config(path, {});
  ASSERT_FALSE(gone.ok());
  EXPECT_NE(gone.error().message.find(path), std::string::npos);
  EXPECT_FALSE(load_config("/tmp", {}).ok());
}

}  // namespace
}  // namespace tally::control
