#include "control/config/config_checks.h"
#include "base/text/sizes.h"

#include <fmt/format.h>

#include <bit>
#include <cctype>
#include <string_view>

#include "base/text/plain_names.h"
#include "control/config/config_keys.h"
#include "control/config/rails.h"
#include "control/config/store_address.h"
#include "net/address.h"
#include "net/tcp.h"

namespace tally::control {
namespace {

// The position of `word` in the text as a word of its own; npos when there is none.
std::size_t find_word(std::string_view text, std::string_view word) {
  const auto is_part = [&](std::size_t i) {
    const auto c = static_cast<unsigned char>(text[i]);
    return std::isalnum(c) != 0 || c == '_';
  };
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || (!is_part(at - 1) && text[at - 1] != '.');
    if (begins && (end == text.size() || !is_part(end))) return at;
  }
  return text.npos;
}

// "t.toml:2:9: ", the place of the key that the message names first.
std::string place_of(std::string_view message, const Places& places) {
  std::size_t first = message.npos;
  const std::string* place = nullptr;
  for (const auto& [key, where] : places) {
    const std::size_t at = find_word(message, key);
    if (at >= first) continue;
    first = at;
    place = &where;
  }
  return place != nullptr ? *place + ": " : std::string();
}

Outcome is_address(const std::string& text) {
  if (text.starts_with(net::kTcpScheme)) {
    const auto tcp = net::parse_host_port("address", text);
    return tcp.ok() ? Outcome(Unit{}) : tcp.error();
  }
  const auto local = net::parse_address(text);
  return local.ok() ? Outcome(Unit{}) : local.error();
}

Outcome check_store(const ClusterConfig& cluster) {
  if (cluster.store.empty()) return Unit{};
  if (const auto endpoints = parse_store(cluster.store); !endpoints) {
    return invalid(fmt::format("cluster.store: {}", endpoints.error().message));
  }
  if (cluster.coordinators.empty()) {
    return invalid(
        "cluster.store is set and cluster.coordinators is not: list the addresses of all nodes "
        "that have cluster.store, this one too");
  }
  if (cluster.store_user.empty() != cluster.store_password_file.empty()) {
    return invalid("cluster.store_user and cluster.store_password_file belong together: set both");
  }
  return Unit{};
}

Outcome check_rack(const ClusterConfig& cluster) {
  if (cluster.rack == "core") {
    return invalid(
        "cluster.rack = \"core\": that is the switch above the racks; give the rack another name");
  }
  if (cluster.rack.empty() && cluster.rack_speed != 0) {
    return invalid(
        "cluster.rack_speed is set and cluster.rack is not: give the name of this machine's rack");
  }
  return Unit{};
}

Outcome check_cluster(const ClusterConfig& cluster) {
  if (auto store = check_store(cluster); !store) return store;
  for (const std::string& address : cluster.addresses()) {
    const Outcome sound = is_address(address);
    if (sound) continue;
    return invalid(fmt::format("cluster.coordinators = \"{}\": {}; put commas between addresses",
                               cluster.coordinators, sound.error().message));
  }
  for (const auto& [key, value] :
       {std::pair{"name", cluster.name}, {"host", cluster.host}, {"rack", cluster.rack}}) {
    if (value.size() > kMaxName) {
      return invalid(fmt::format("cluster.{} has {} bytes: must be a text of at most {}", key,
                                 value.size(), kMaxName));
    }
    if (!is_plain(value)) {
      return invalid(
          fmt::format("cluster.{} has a control character: use printable characters", key));
    }
  }
  return check_rack(cluster);
}

// A node on a network needs a secret, certificates, or `insecure`. Without them any process that
// reaches the node could use it.
Outcome check_security(const Config& config) {
  const SecurityConfig& security = config.security;
  if (!security.secret_file.empty() || security.certificates.any() || security.insecure)
    return Unit{};
  return invalid(
      fmt::format("listen_tcp = \"{}\": anybody who reaches this address could use the node. Give "
                  "it the cluster's "
                  "secret (`tallyctl token secret FILE` makes one; --secret-file FILE), or serve "
                  "everybody with "
                  "--insecure (docs/security.md)",
                  config.listen_tcp));
}

Outcome check_listeners(const Config& config) {
  if (config.listen.starts_with(net::kTcpScheme)) {
    return invalid(
        fmt::format("listen = \"{}\": it must be a Unix socket, unix:/path; "
                    "listen_tcp is for that",
                    config.listen));
  }
  if (auto address = net::parse_address(config.listen); !address) {
    return invalid(fmt::format("listen = \"{}\": {}", config.listen, address.error().message));
  }
  if (config.listen_tcp.empty()) return Unit{};
  if (!config.listen_tcp.starts_with(net::kTcpScheme)) {
    return invalid(fmt::format("listen_tcp = \"{}\": write tcp:host:port, like tcp:*:7733",
                               config.listen_tcp));
  }
  const auto tcp = net::parse_host_port("address", config.listen_tcp, true);
  if (tcp.ok()) return check_security(config);
  return invalid(fmt::format("listen_tcp = \"{}\": {}", config.listen_tcp, tcp.error().message));
}

Outcome check(const Config& config) {
  if (auto listeners = check_listeners(config); !listeners) return listeners;
  if (auto cluster = check_cluster(config.cluster); !cluster) return cluster;
  if (auto rails = configured_rails(config); !rails) return rails.error();
  if (config.mtu != 0 && !std::has_single_bit(config.mtu)) {
    return invalid(
        fmt::format("network.mtu is {}: RDMA's packets carry 256, 512, 1024, 2048 or 4096 bytes; "
                    "take the largest that fits, with 80 bytes of headers, through every switch",
                    config.mtu));
  }
  if (config.tile_bytes > config.window_bytes) {
    return invalid(
        fmt::format("shards.tile_bytes is {} and shards.window_bytes {}: a tile must fit "
                    "into the window",
                    size_text(config.tile_bytes), size_text(config.window_bytes)));
  }
  if (config.jobs.size() > config.limits.max_jobs) {
    return invalid(fmt::format("limits.max_jobs is {} and {} jobs are listed: raise it",
                               config.limits.max_jobs, config.jobs.size()));
  }
  for (const ConfiguredJob& job : config.jobs) {
    if (job.ranks > config.limits.max_ranks) {
      return invalid(fmt::format("{} has {} ranks and limits.max_ranks is {}: raise it",
                                 job_text(job), job.ranks, config.limits.max_ranks));
    }
  }
  if (!config.limits.open_jobs && config.jobs.empty()) {
    return invalid(
        "open_jobs is false and no job is listed: nobody could join; list jobs under "
        "[[jobs]], or leave open_jobs out");
  }
  return Unit{};
}

}  // namespace

Outcome check_config(const Config& config, const Places& places) {
  const auto checked = check(config);
  if (checked) return checked;
  const std::string& message = checked.error().message;
  return Error{checked.status(), place_of(message, places) + message};
}

std::string job_text(const ConfiguredJob& job) {
  return fmt::format("job \"{}\"", job.name);
}

}  // namespace tally::control
