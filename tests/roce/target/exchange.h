// The texts by which ibv_rc_pingpong and perftest tell each other, over TCP, where their queue
// pairs are. Pure.
//
// Sources: rdma-core 44, libibverbs/examples/rc_pingpong.c; perftest 4.5-0.17,
// src/perftest_communication.c.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce::target {

// A queue pair, and the memory that belongs to it.
struct Endpoint {
  std::uint32_t number = 0;  // 24 bits, like the next one
  std::uint32_t first_psn = 0;
  IpAddress gid{};
  // Of perftest alone:
  std::uint32_t reads = 0;  // READ requests that it answers at a time
  std::uint32_t key = 0;
  std::uint64_t address = 0;

  bool operator==(const Endpoint&) const = default;
};

// With the zero byte at the end, which is sent too.
inline constexpr std::size_t kPingpongBytes = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1;
inline constexpr std::size_t kPerftestBytes = 108;

std::string pingpong_text(const Endpoint& endpoint);
// Nothing when the text is not valid; the same for perftest.
std::optional<Endpoint> parse_pingpong(std::string_view text);

std::string perftest_text(const Endpoint& endpoint);
std::optional<Endpoint> parse_perftest(std::string_view text);

// verbs' number for an MTU: 1 for 256 to 5 for 4096.
std::uint32_t mtu_code(std::uint32_t bytes);

}  // namespace tally::transport::roce::target
