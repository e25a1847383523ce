#include "perf/run/lobby.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "perf/options/agreement.h"

namespace tally::perf {
namespace {

using nlohmann::json;

// The time between two messages of a visitor.
constexpr Nanos kVisitorTimeout = 10 * kSecond;
// Visitors beside the awaited ranks: other processes that connect, and ranks that connect again.
constexpr std::size_t kMoreVisitors = 64;
constexpr std::size_t kMostRefusedHosts = 64;   // that are reported
constexpr std::size_t kVisitorLine = 64 << 10;  // bytes, until a visitor agrees
constexpr Nanos kLook = 200 * kMillisecond;

}  // namespace

Lobby::Lobby(Setting setting, int listener) : setting_(std::move(setting)), listener_(listener) {}

Result<std::map<std::uint32_t, Guest>> Lobby::gather(int interrupt, Nanos deadline) {
  std::optional<Error> failure;
  while (!missing().empty() && !failure) {
    const Nanos now = monotonic_now();
    if (now >= deadline) {
      failure = too_late();
    } else if (!wait(interrupt, std::min(deadline, now + kLook))) {
      failure = Error{Status::kCancelled, "interrupted"};
    }
    send_away(monotonic_now());
  }
  std::map<std::uint32_t, Guest> guests;
  for (Visitor& visitor : visitors_) {
    if (failure) {
      refuse(visitor, "the run does not take place: " + failure->message);
    } else if (visitor.agreed && !visitor.gone) {
      guests[visitor.rank] = std::move(visitor.guest);
    }
  }
  if (failure) return *failure;
  return guests;
}

bool Lobby::wait(int interrupt, Nanos until) {
  std::vector<pollfd> sources = {{interrupt, POLLIN, 0}, {listener_, POLLIN, 0}};
  for (const Visitor& visitor : visitors_) {
    sources.push_back({visitor.guest.channel->fd(), POLLIN, 0});
  }
  const Nanos left = std::max<Nanos>(until - monotonic_now(), 0);
  if (::poll(sources.data(), sources.size(), static_cast<int>(left / kMillisecond) + 1) <= 0) {
    return true;
  }
  if (sources[0].revents != 0) return false;
  std::size_t next = 2;
  for (Visitor& visitor : visitors_) {
    if (sources[next++].revents != 0) read_messages(visitor);
  }
  if (sources[1].revents != 0) let_in();
  return true;
}

void Lobby::let_in() {
  auto socket = net::accept_tcp(listener_);
  if (!socket) return;
  if (visitors_.size() >= setting_.ranks.size() + kMoreVisitors) {
    // The visitor that has named no rank for longest makes room, so that silent visitors lock out
    // no rank.
    const auto silent = std::ranges::find_if(
        visitors_, [](const Visitor& visitor) { return visitor.rank == kNoRank; });
    if (silent == visitors_.end()) return;
    visitors_.erase(silent);
  }
  Visitor visitor;
  visitor.guest.host = net::bracketed(net::remote_host(socket->get()));
  visitor.guest.here = net::local_host(socket->get());
  if (setting_.tls != nullptr) {
    static const std::string in_clear =
        json({{"event", "refused"},
              {"message",
               "this run is for hosts that show its token or secret: give --token, or set "
               "$TALLY_TOKEN"}})
            .dump() +
        '\n';
    auto tunnel = net::tls::Tunnel::server(setting_.tls, std::move(*socket), in_clear);
    if (!tunnel) return;  // no memory
    visitor.guest.tunnel = std::move(*tunnel);
    socket = visitor.guest.tunnel->local_end();
  }
  visitor.guest.channel = std::make_unique<net::Channel>(std::move(*socket), kVisitorLine);
  visitor.until = monotonic_now() + kVisitorTimeout;
  visitors_.push_back(std::move(visitor));
}

void Lobby::read_messages(Visitor& visitor) {
  const bool open = visitor.guest.channel->read_available();
  try {
    while (const auto message = visitor.guest.channel->next()) {
      if (!visitor.gone) handle(visitor, *message);
    }
  } catch (const json::exception&) {
    refuse(visitor, "this is a tally-perf that waits for workers, and that was not understood");
  }
  visitor.gone = visitor.gone || !open;
}

void Lobby::handle(Visitor& visitor, const json& message) {
  const std::string event = message.at("event");
  if (event == "join" && visitor.rank == kNoRank) return join(visitor, message);
  if (event == "agreed" && visitor.rank != kNoRank) {
    visitor.agreed = true;
    visitor.guest.channel->allow_longest_lines();
    return;
  }
  if (event == "refused" && visitor.rank != kNoRank) {
    const std::string why = printable(message.at("message"));
    refusals_[visitor.rank] = why;
    setting_.print(
        fmt::format("rank {} at {} does not take part: {}", visitor.rank, visitor.guest.host, why));
    visitor.gone = true;
    return;
  }
  refuse(visitor, "that was not expected");
}

void Lobby::join(Visitor& visitor, const json& message) {
  const std::uint32_t protocol = message.at("protocol");
  const std::uint32_t rank = message.at("rank");
  if (protocol != kJoinProtocol) {
    return refuse(visitor, fmt::format("this tally-perf ({}) speaks version {} of the protocol, "
                                       "the other {}: install matching releases",
                                       TALLY_VERSION, kJoinProtocol, protocol));
  }
  if (std::ranges::find(setting_.ranks, rank) == setting_.ranks.end()) {
    return refuse(visitor, fmt::format("rank {} is not awaited: --ranks {} has them from 0 to {}, "
                                       "and those of --rank run on the serving host",
                                       rank, setting_.options.ranks, setting_.options.ranks - 1));
  }
  if (is_taken(rank)) return refuse(visitor, fmt::format("rank {} has joined already", rank));
  Options its = setting_.options;
  its.rank = rank;
  its.token.clear();  // the job's secret is not for every process that connects
  if (setting_.node_port != 0) {
    const std::string host = net::bracketed(visitor.guest.here);
    its.address = net::HostPort{host, setting_.node_port}.tcp_address();
  }
  visitor.rank = rank;
  visitor.until = monotonic_now() + kVisitorTimeout;
  visitor.guest.channel->send({{"event", "options"}, {"options", to_json(its)}});
}

void Lobby::refuse(Visitor& visitor, const std::string& why) {
  visitor.guest.channel->send({{"event", "refused"}, {"message", why}});
  visitor.gone = true;
}

// Removes visitors that left, and visitors that are silent.
void Lobby::send_away(Nanos now) {
  for (Visitor& visitor : visitors_) {
    if (visitor.agreed && visitor.gone) {
      setting_.print(fmt::format("rank {} at {} left again", visitor.rank, visitor.guest.host));
    }
    const std::string why = visitor.guest.tunnel ? visitor.guest.tunnel->failure() : "";
    if (visitor.gone && !why.empty() && refused_hosts_.size() < kMostRefusedHosts &&
        refused_hosts_.insert(visitor.guest.host).second) {
      setting_.print(fmt::format("{} was refused: {}", visitor.guest.host, why));
    }
    visitor.gone = visitor.gone || (!visitor.agreed && now >= visitor.until);
  }
  visitors_.remove_if([](const Visitor& visitor) { return visitor.gone; });
}

bool Lobby::is_taken(std::uint32_t rank) const {
  return std::ranges::any_of(
      visitors_, [rank](const Visitor& visitor) { return visitor.rank == rank && !visitor.gone; });
}

std::vector<std::uint32_t> Lobby::missing() const {
  std::vector<std::uint32_t> ranks;
  for (const std::uint32_t rank : setting_.ranks) {
    const bool there = std::ranges::any_of(visitors_, [rank](const Visitor& visitor) {
      return visitor.rank == rank && visitor.agreed && !visitor.gone;
    });
    if (!there) ranks.push_back(rank);
  }
  return ranks;
}

Error Lobby::too_late() const {
  const auto ranks = missing();
  std::string text = fmt::format(
      "rank {} did not join within {} s: start tally-perf --join there, "
      "with --rank {}",
      fmt::join(ranks, ","), setting_.options.join_timeout_s, fmt::join(ranks, ","));
  for (const std::uint32_t rank : ranks) {
    const auto refusal = refusals_.find(rank);
    if (refusal != refusals_.end()) text += fmt::format(" (rank {}: {})", rank, refusal->second);
  }
  return Error{Status::kDeadline, text};
}

}  // namespace tally::perf
