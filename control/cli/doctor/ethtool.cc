#include "control/cli/doctor/ethtool.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/system/fd.h"

namespace tally::control::doctor {
namespace {

constexpr std::uint32_t kMaxStatistics = 1 << 16;

// One of ethtool's structures: a head, followed by the bytes that the head counts.
template <typename Head>
class Request {
 public:
  Request(std::uint32_t command, std::size_t behind) : bytes_(sizeof(Head) + behind) {
    head().cmd = command;
  }
  Head& head() { return *reinterpret_cast<Head*>(bytes_.data()); }
  const std::byte* behind() const { return bytes_.data() + sizeof(Head); }

  Outcome send(int socket, const std::string& interface) {
    ifreq request{};
    interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
    request.ifr_data = reinterpret_cast<char*>(bytes_.data());
    if (::ioctl(socket, SIOCETHTOOL, &request) == 0) return Unit{};
    const bool none = errno == EOPNOTSUPP || errno == ENOTTY || errno == EINVAL;
    return Error{none ? Status::kUnsupported : Status::kUnavailable,
                 fmt::format("ethtool statistics of {}: {}", interface, std::strerror(errno))};
  }

 private:
  std::vector<std::byte> bytes_;
};

Result<std::uint32_t> how_many(int socket, const std::string& interface) {
  Request<ethtool_sset_info> info(ETHTOOL_GSSET_INFO, sizeof(std::uint32_t));
  info.head().sset_mask = std::uint64_t{1} << ETH_SS_STATS;
  if (auto sent = info.send(socket, interface); !sent) return sent.error();
  std::uint32_t count = 0;
  if (info.head().sset_mask != 0) std::memcpy(&count, info.behind(), sizeof count);
  if (count == 0 || count > kMaxStatistics) {
    return Error{Status::kUnsupported, fmt::format("the driver of {} keeps none", interface)};
  }
  return count;
}

}  // namespace

Result<Statistics> read_ethtool_statistics(const std::string& interface) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return Error{Status::kInternal, fmt::format("socket: {}", std::strerror(errno))};
  const auto count = how_many(socket.get(), interface);
  if (!count) return count.error();
  Request<ethtool_gstrings> names(ETHTOOL_GSTRINGS, std::size_t{*count} * ETH_GSTRING_LEN);
  names.head().string_set = ETH_SS_STATS;
  names.head().len = *count;
  if (auto sent = names.send(socket.get(), interface); !sent) return sent.error();
  Request<ethtool_stats> values(ETHTOOL_GSTATS, *count * sizeof(std::uint64_t));
  values.head().n_stats = *count;
  if (auto sent = values.send(socket.get(), interface); !sent) return sent.error();
  // A driver may change its number of statistics between the two requests, for example when
  // channels are added. Only the statistics that both answers have are used.
  const std::uint32_t both = std::min({*count, names.head().len, values.head().n_stats});
  Statistics statistics;
  for (std::size_t i = 0; i < both; ++i) {
    const auto* name = reinterpret_cast<const char*>(names.behind() + i * ETH_GSTRING_LEN);
    std::uint64_t value = 0;
    std::memcpy(&value, values.behind() + i * sizeof value, sizeof value);
    statistics.emplace_back(std::string(name, ::strnlen(name, ETH_GSTRING_LEN)), value);
  }
  return statistics;
}

}  // namespace tally::control::doctor
