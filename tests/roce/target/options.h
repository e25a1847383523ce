// The command line of roce-target.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "dataplane/transport/roce/port/address_resolver.h"

namespace tally::transport::roce::target {

// Which program the other end runs.
enum class Tool : std::uint8_t { kPingpong, kSend, kWrite, kRead };
// As on the command line.
const char* name_of(Tool tool);

struct Options {
  std::string device;  // DPDK's name of the port
  LocalAddress address{};
  std::uint16_t vlan = 0;
  std::uint64_t memory = 16 << 20;  // bytes that peers may reach
  std::uint32_t mtu = 0;            // of RoCE; 0: the largest that fits into the port's
  std::uint32_t window = 64;        // packets on their way
  Tool tool = Tool::kPingpong;
  std::string host;  // to connect to; empty: this end serves
  std::uint16_t tcp_port = 18515;
  std::vector<std::uint64_t> sizes;  // of messages: a connection for each
  std::uint32_t count = 1;           // connections to serve
  std::uint64_t iterations = 1000;
  std::uint32_t pairs = 1;
  Nanos timeout = 30 * kSecond;  // without anything from the other end
  bool checks = true;            // compares the contents of what has arrived

  bool is_client() const { return !host.empty(); }
};

// What main() returns when there is nothing to run: after --help 0, after a mistake 2.
struct Exit {
  int code = 0;
};

// Prints help, or what is wrong with the command line.
std::variant<Options, Exit> parse_options(int argc, char** argv);

}  // namespace tally::transport::roce::target
