#include "tests/roce/target/options.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <map>

#include "base/text/sizes.h"
#include "control/cli/common/explain.h"

namespace tally::transport::roce::target {
namespace {

constexpr int kUsage = 2;
constexpr std::uint64_t kMostMemory = 1ULL << 30;
constexpr std::uint64_t kMostMessage = 1ULL << 30;
constexpr std::uint64_t kLeastMemory = 64 << 10;

const std::map<std::string, Tool> kTools = {{"pingpong", Tool::kPingpong},
                                            {"send_bw", Tool::kSend},
                                            {"write_bw", Tool::kWrite},
                                            {"read_bw", Tool::kRead}};

constexpr const char* kFooter = R"(
TOOL is the program at the other end:
  pingpong   ibv_rc_pingpong; give --mtu the same value as its -m (1024 by default), and --iterations
             that of its -n
  send_bw    ib_send_bw, like the next two of perftest 4.5, one direction (no -b)
  write_bw   ib_write_bw
  read_bw    ib_read_bw

Each connection prints one line. wrong_bytes counts bytes that differ from what the program sends;
perftest's programs derive their bytes from the time, so both ends need the same time within seconds.

Exit status: 0 all well, 1 something was wrong, 2 usage.

Examples:
  roce-target --port 0000:3b:00.0 --address 10.9.0.2/24 serve write_bw
  roce-target --port 0000:3b:00.0 --address 10.9.0.2/24 --size 1,64K,1M connect 10.0.0.7 read_bw
)";

std::optional<IpAddress> parse_ip(const std::string& text) {
  IpAddress address{};
  address[10] = address[11] = 0xff;
  if (::inet_pton(AF_INET, text.c_str(), &address[12]) == 1) return address;
  if (::inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  return std::nullopt;
}

IpAddress need_ip(const std::string& flag, const std::string& text) {
  const auto address = parse_ip(text);
  if (!address) {
    throw CLI::ValidationError(flag, fmt::format("\"{}\" is no IPv4 or IPv6 address", text));
  }
  return *address;
}

void read_address(const std::string& text, LocalAddress& local) {
  const std::size_t slash = text.find('/');
  local.address = need_ip("--address", text.substr(0, slash));
  const unsigned most = is_ipv4(local.address) ? 32 : 128;
  const char* const begin = text.data() + std::min(slash, text.size() - 1) + 1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, local.prefix_bits);
  if (error != std::errc() || stop != end || local.prefix_bits > most) {
    throw CLI::ValidationError(
        "--address", fmt::format("\"{}\" has no prefix: write an address like 10.9.0.2/24", text));
  }
}

std::uint64_t need_size(const std::string& flag, const std::string& text, std::uint64_t least,
                        std::uint64_t most) {
  const auto bytes = parse_size(text);
  if (!bytes) throw CLI::ValidationError(flag, bytes.error().message);
  if (*bytes < least || *bytes > most) {
    throw CLI::ValidationError(flag, fmt::format("{} is {}: give {} to {}", flag, text,
                                                 size_text(least), size_text(most)));
  }
  return *bytes;
}

void describe_port(CLI::App& app, Options& options) {
  app.add_option("--port", options.device,
                 "the port, by DPDK's name: a PCI address or a virtual device")
      ->required()
      ->type_name("DEVICE");
  app.add_option_function<std::string>(
         "--address", [&](const std::string& text) { read_address(text, options.address); },
         "the port's address and prefix, IPv4 or IPv6")
      ->required()
      ->type_name("ADDRESS/BITS");
  app.add_option_function<std::string>(
         "--gateway",
         [&](const std::string& text) { options.address.gateway = need_ip("--gateway", text); },
         "for peers outside of the prefix")
      ->type_name("ADDRESS");
  app.add_option("--vlan", options.vlan, "the VLAN of the port's frames [none]")
      ->check(CLI::Range(1, 4094))
      ->type_name("N");
  app.add_option_function<std::string>(
         "--memory",
         [&](const std::string& text) {
           options.memory = need_size("--memory", text, kLeastMemory, kMostMemory);
         },
         "memory that the peer may read and write [16MiB]")
      ->type_name("SIZE");
  app.add_option("--mtu", options.mtu, "most bytes of payload in a packet [what the port takes]")
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}))
      ->type_name("N");
  app.add_option("--window", options.window, "packets on their way [64]")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
}

void describe_run(CLI::App& app, Options& options) {
  app.add_option("--tcp-port", options.tcp_port, "of the exchange of addresses [18515]")
      ->check(CLI::Range(1, UINT16_MAX))
      ->type_name("N");
  app.add_option_function<std::vector<std::string>>(
         "--size",
         [&](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             options.sizes.push_back(need_size("--size", text, 1, kMostMessage));
           }
         },
         "connect: bytes of a message; several make a connection each [4096]")
      ->delimiter(',')
      ->type_name("SIZE,...");
  app.add_option("--count", options.count, "serve: so many connections, one after the other [1]")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  app.add_option("--iterations", options.iterations, "messages of a queue pair [1000]")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  app.add_option("--pairs", options.pairs, "queue pairs, as perftest's -q [1]")
      ->check(CLI::Range(1, 64))
      ->type_name("N");
  app.add_option_function<unsigned>(
         "--timeout", [&](unsigned seconds) { options.timeout = seconds * kSecond; },
         "how long the other end may be silent [30]")
      ->check(CLI::Range(1, 3600))
      ->type_name("SECONDS");
  app.add_flag_callback(
      "--no-check", [&] { options.checks = false; }, "does not compare contents");
}

void describe_tools(CLI::App& app, Options& options) {
  CLI::App* const serve = app.add_subcommand("serve", "waits for the program");
  CLI::App* const connect = app.add_subcommand("connect", "connects to the program");
  connect->add_option("HOST", options.host, "where it listens")->required();
  for (CLI::App* const command : {serve, connect}) {
    command->fallthrough();
    command
        ->add_option_function<std::string>(
            "TOOL", [&](const std::string& name) { options.tool = kTools.at(name); },
            "pingpong, send_bw, write_bw or read_bw")
        ->required()
        ->check(CLI::IsMember(kTools));
  }
  app.require_subcommand(1);
}

}  // namespace

const char* name_of(Tool tool) {
  for (const auto& [name, value] : kTools) {
    if (value == tool) return name.c_str();
  }
  return "";
}

std::variant<Options, Exit> parse_options(int argc, char** argv) {
  CLI::App app{
      "A RoCEv2 endpoint for tests: the other end of rdma-core's and perftest's programs."};
  app.footer(kFooter);
  Options options;
  describe_port(app, options);
  describe_run(app, options);
  describe_tools(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_help = control::print_help_or_explain(app, error, "roce-target");
    return Exit{is_help ? 0 : kUsage};
  }
  if (options.sizes.empty()) options.sizes = {4096};
  return options;
}

}  // namespace tally::transport::roce::target
