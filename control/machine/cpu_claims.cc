#include "control/machine/cpu_claims.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace tally::control {
namespace {

constexpr int kMost = 64;  // messages of other nodes that are read at once

struct Name {
  sockaddr_un address{};
  socklen_t bytes = 0;

  // The name is abstract: it begins with a zero byte, and is no file.
  Name(std::string_view names, int cpu, int time) {
    const std::string text = fmt::format("{}-{}-{}", names, cpu, time);
    const std::size_t length = std::min(text.size(), sizeof address.sun_path - 1);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, text.data(), length);
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

UniqueFd datagrams() {
  return UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

bool CpuClaims::is_mine(int cpu, int time) const {
  return std::any_of(claims_.begin(), claims_.end(),
                     [&](const Claim& claim) { return claim.cpu == cpu && claim.time == time; });
}

bool CpuClaims::is_taken(int cpu, int time) const {
  const UniqueFd socket = datagrams();
  const Name name(names_, cpu, time);
  return socket && ::connect(socket.get(), name.get(), name.bytes) == 0;
}

bool CpuClaims::claim(int cpu, int time) {
  UniqueFd socket = datagrams();
  const Name name(names_, cpu, time);
  if (!socket || ::bind(socket.get(), name.get(), name.bytes) != 0) return false;
  claims_.push_back({cpu, time, std::move(socket)});
  return true;
}

std::vector<int> CpuClaims::take(std::span<const int> cpus, std::size_t count) {
  std::vector<int> taken;
  for (int time = 0; time < kTimes; ++time) {
    for (const int cpu : cpus) {
      if (taken.size() < count && claim(cpu, time)) taken.push_back(cpu);
    }
  }
  notify_others(cpus);
  return taken;
}

std::vector<int> CpuClaims::of_others(std::span<const int> cpus) const {
  std::vector<int> theirs;
  for (const int cpu : cpus) {
    bool taken = false;
    for (int time = 0; time < kTimes && !taken; ++time) {
      taken = !is_mine(cpu, time) && is_taken(cpu, time);
    }
    if (taken) theirs.push_back(cpu);
  }
  return theirs;
}

bool CpuClaims::crowded(std::span<const int> cpus) const {
  return std::any_of(cpus.begin(), cpus.end(), [this](int cpu) {
    int times = 0;
    for (int time = 0; time < kTimes; ++time) times += is_taken(cpu, time) ? 1 : 0;
    return times > 1;
  });
}

int CpuClaims::settle(std::span<const int> cpus) {
  const Claim latest = {claims_.back().cpu, claims_.back().time, UniqueFd()};
  const auto theirs = of_others(cpus);
  const auto is_theirs = [&](int cpu) {
    return std::find(theirs.begin(), theirs.end(), cpu) != theirs.end();
  };
  if (!is_theirs(latest.cpu)) return latest.cpu;
  for (const int cpu : cpus) {
    if (is_theirs(cpu) || !claim(cpu, 0)) continue;
    claims_.erase(claims_.end() - 2);
    return cpu;
  }
  return latest.cpu;
}

// A node whose socket is full has an unread message already, so a failed send needs no retry.
void CpuClaims::notify_others(std::span<const int> cpus) const {
  const UniqueFd socket = datagrams();
  for (const int cpu : cpus) {
    for (int time = 0; time < kTimes && socket; ++time) {
      if (is_mine(cpu, time)) continue;
      const Name name(names_, cpu, time);
      static_cast<void>(::sendto(socket.get(), "", 0, MSG_DONTWAIT, name.get(), name.bytes));
    }
  }
}

void CpuClaims::read_messages() const {
  char byte;
  for (int i = 0; i < kMost && ::recv(fd(), &byte, sizeof byte, MSG_DONTWAIT) >= 0;) ++i;
}

}  // namespace tally::control
