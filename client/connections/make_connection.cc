#include "client/connections/make_connection.h"

#include <fmt/format.h>

#include <algorithm>

#include "client/connections/fabric_connection.h"
#include "client/connections/rails_connection.h"
#include "client/connections/shm_connection.h"
#include "client/connections/verbs_connection.h"
#include "net/address.h"
#include "net/tcp.h"

namespace tally::client {
namespace {

namespace fabric = transport::fabric;
using nlohmann::json;
using MadeConnection = Result<std::unique_ptr<Connection>>;

// Time for packets to reach the node. It is longer than an adapter usually retries (queue_pair.h).
constexpr Nanos kFirstMessage = 5 * kSecond;

// One attempt to reach a node whose session has been opened.
class ConnectionMaker {
 public:
  ConnectionMaker(rpc::RpcChannel& channel, const json& opened, const ConnectionSize& size,
                  const SharedByConnections& shared, Nanos deadline)
      : channel_(channel), opened_(opened), size_(size), shared_(shared), deadline_(deadline) {}

  bool on_this_host() const { return channel_.local_host().empty(); }  // a Unix socket
  bool offers(const char* transport) const { return opened_.contains(transport); }

  MadeConnection shm() {
    if (!on_this_host()) {
      return Error{Status::kUnsupported,
                   fmt::format("transport shm needs the node's Unix socket, and {} is not one: use "
                               "unix:/path on the node's own host, or another transport",
                               channel_.address())};
    }
    auto connection = ShmConnection::make({size_.shards, size_.credit}, channel_.fd());
    if (!connection) return connection.error();
    auto attached =
        channel_.call("session.attach", json::object(), (*connection)->node_fds(), deadline_);
    if (!attached) return attached.error();
    (*connection)->attached();
    return std::unique_ptr<Connection>(std::move(*connection));
  }

  MadeConnection verbs(const ConnectionWish& wish) {
    if (!offers("verbs")) {
      return not_offered("verbs",
                         "with --listen-tcp, on a machine with an RDMA device (its log "
                         "says why it has none)");
    }
    auto api = transport::verbs::system_api();
    if (!api) return api.error();
    const bool one_device = !wish.device.empty() || wish.domain != nullptr;
    const auto ways = ways_to_shards(channel_.local_host(), one_device);
    if (!ways) return ways.error();
    const auto make = [&](const Way& way) {
      VerbsConnectionOptions options;
      options.device = {.device = wish.device, .host = way.local_host, .domain = wish.domain};
      options.device.ack_timeout = ack_timeout();
      options.shards = static_cast<std::uint32_t>(way.shards.size());
      options.credit = size_.credit;
      options.eager_bytes = taken("verbs", "eager_bytes", transport::verbs::kEagerBytes);
      options.probe_bytes = taken("verbs", "probe_bytes", transport::verbs::kProbeBytes);
      options.watch = channel_.fd();
      options.devices = shared_.devices;
      return VerbsConnection::make(**api, options);
    };
    return attach<VerbsConnection>(*ways, make);
  }

  MadeConnection fabric(const ConnectionWish& wish) {
    if (!offers("fabric")) {
      return not_offered("fabric", "with --listen-tcp, in a version that has it");
    }
    std::string provider, local_host;
    try {
      const json& offer = opened_.at("fabric");
      provider = offer.at("provider").get<std::string>();
      local_host = on_this_host() ? offer.at("host").get<std::string>() : channel_.local_host();
    } catch (const json::exception&) {
      return broken_offer();
    }
    const auto ways = ways_to_shards(local_host, false);
    if (!ways) return ways.error();
    for (const Way& way : *ways) {
      if (auto proven = prove(way); !proven) return proven.error();
    }
    const auto make = [&](const Way& way) {
      FabricConnectionOptions options;
      options.provider = provider;
      options.local_host = way.local_host;
      options.remote_host = on_this_host() ? local_host : channel_.remote_host();
      options.shards = static_cast<std::uint32_t>(way.shards.size());
      options.credit = size_.credit;
      options.eager_bytes = taken("fabric", "eager_bytes", fabric::kEagerBytes);
      options.eager_results = wish.eager_results;
      options.watch = channel_.fd();
      options.progress = shared_.progress;
      return FabricConnection::make(options);
    };
    return attach<FabricConnection>(*ways, make);
  }

 private:
  // Shards that this machine reaches from one of its addresses.
  struct Way {
    std::string local_host;
    std::vector<std::uint32_t> shards;
  };

  // A node with several NICs reports the address of each shard; nodes of older versions do
  // not. This machine's routes decide which of its own addresses reaches that shard.
  Result<std::vector<Way>> ways_to_shards(const std::string& local_host, bool all_one) const {
    const auto hosts = opened_.find("hosts");
    if (hosts == opened_.end() || all_one) {
      Way way{local_host, {}};
      for (std::uint32_t shard = 0; shard < size_.shards; ++shard) way.shards.push_back(shard);
      return std::vector<Way>{way};
    }
    if (!hosts->is_array() || hosts->size() != size_.shards) return broken_offer();
    std::vector<Way> ways;
    Result<std::string> local = std::string();
    for (std::uint32_t shard = 0; shard < size_.shards; ++shard) {
      const json& host = (*hosts)[shard];
      if (!host.is_string()) return broken_offer();
      if (shard == 0 || host != (*hosts)[shard - 1])
        local = net::local_host_towards(host.get<std::string>());
      if (!local) return local.error();
      auto known = std::find_if(ways.begin(), ways.end(),
                                [&](const Way& way) { return way.local_host == *local; });
      if (known == ways.end()) known = ways.insert(known, Way{*local, {}});
      known->shards.push_back(shard);
    }
    return ways;
  }

  // The node connects to an endpoint only at an address from which this rank has connected to the
  // node. For each address that the control connection does not use, the rank makes another
  // connection and shows the node's proof. Nodes of older versions do not ask for a proof.
  Outcome prove(const Way& way) {
    const auto proof = number(opened_.at("fabric"), "proof");
    const std::string here = channel_.local_host();
    if (!proof || here.empty() || way.local_host == here) return Unit{};
    const auto node = net::parse_host_port("address", channel_.address());
    if (!node) return node.error();
    const std::string host = (*opened_.find("hosts"))[way.shards.front()].get<std::string>();
    const net::HostPort there{net::bracketed(host), node->port};
    auto shown = rpc::RpcChannel::connect(there.tcp_address(), std::min(deadline_, monotonic_now()),
                                          channel_.credentials());
    if (!shown) {
      return Error{shown.status(),
                   fmt::format("cannot connect to the node from {} to prove that this rank's "
                               "endpoint is there: {}",
                               way.local_host, shown.error().message)};
    }
    auto answer =
        shown->call("session.prove", {{"session", opened_.value("session", 0U)}, {"proof", *proof}},
                    {}, deadline_);
    if (!answer) return answer.error();
    return Unit{};
  }

  // Bytes that the node takes behind a notice or as a probe; 0 for nodes of older versions.
  std::uint32_t taken(const char* transport, const char* what, std::uint64_t most) const {
    const std::uint64_t bytes = number(opened_.at(transport), what).value_or(0);
    return static_cast<std::uint32_t>(std::min(bytes, most));
  }

  // This end uses the node's value, clamped to the valid range. Nodes of older versions send none.
  std::uint8_t ack_timeout() const {
    namespace verbs = transport::verbs;
    const auto wished = number(opened_.at("verbs"), "ack_timeout").value_or(verbs::kAckTimeout);
    return static_cast<std::uint8_t>(
        std::clamp<std::uint64_t>(wished, verbs::kMinAckTimeout, verbs::kMaxAckTimeout));
  }

  static std::optional<std::uint64_t> number(const json& offer, const char* name) {
    const auto found = offer.find(name);
    if (found == offer.end() || !found->is_number_unsigned()) return std::nullopt;
    return found->get<std::uint64_t>();
  }

  Error not_offered(const char* transport, const char* remedy) const {
    return {Status::kUnsupported,
            fmt::format("the node at {} does not offer transport {}: start it {}",
                        channel_.address(), transport, remedy)};
  }

  static Error broken_offer() {
    return {Status::kProtocol,
            "the node's offer of a transport cannot be read: is it of another version?"};
  }

  // Makes a connection for each way, and exchanges endpoints with the node.
  template <typename L, typename Make>
  MadeConnection attach(const std::vector<Way>& ways, Make make) {
    std::vector<std::unique_ptr<L>> connections;
    json introductions = json::array();
    for (const Way& way : ways) {
      auto connection = make(way);
      if (!connection) return connection.error();
      introductions.push_back((*connection)->introduction());
      connections.push_back(std::move(connection).value());
    }
    auto attached = channel_.call("session.attach", joint(introductions, ways), {}, deadline_);
    if (!attached) return attached.error();
    const auto names = attached->find("names");
    if (names == attached->end() || !names->is_array() || names->size() != size_.shards) {
      return broken_offer();
    }
    for (std::size_t i = 0; i < ways.size(); ++i) {
      json own = json::array();
      for (const std::uint32_t shard : ways[i].shards) own.push_back((*names)[shard]);
      const Nanos until = std::min(deadline_, monotonic_now() + kFirstMessage);
      if (Outcome done = connections[i]->attached(own, until); !done) return done.error();
    }
    if (ways.size() == 1) return std::unique_ptr<Connection>(std::move(connections.front()));
    std::vector<RailConnection> rails;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      rails.push_back({std::move(connections[i]), ways[i].shards});
    }
    auto made = RailsConnection::make(std::move(rails));
    if (!made) return made.error();
    return std::unique_ptr<Connection>(std::move(*made));
  }

  // Merges the introductions of the connections into one. It lists queue pairs by shard, because
  // the node does not need to know the connection of each.
  json joint(const json& introductions, const std::vector<Way>& ways) const {
    json all = introductions.front();
    if (ways.size() == 1) return all;
    if (all.contains("names")) {
      all["names"] = json(size_.shards, nullptr);
      for (std::size_t i = 0; i < ways.size(); ++i) {
        for (std::size_t j = 0; j < ways[i].shards.size(); ++j) {
          all["names"][ways[i].shards[j]] = introductions[i]["names"][j];
        }
      }
      return all;
    }
    json rails = json::array();
    for (std::size_t i = 0; i < ways.size(); ++i) {
      json& rail = rails.emplace_back(introductions[i]);
      rail.erase("transport");
      rail["lanes"] = ways[i].shards;
    }
    return {{"transport", all["transport"]}, {"rails", std::move(rails)}};
  }

  rpc::RpcChannel& channel_;
  const json& opened_;
  const ConnectionSize& size_;
  const SharedByConnections& shared_;
  Nanos deadline_;
};

}  // namespace

Result<ConnectionWish> read_wish(const std::string& text, ibv_pd* domain) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  ConnectionWish wish{text.substr(0, colon), text.substr(std::min(colon + 1, text.size())), domain};
  const bool known = wish.transport.empty() || wish.transport == "shm" ||
                     wish.transport == "verbs" || wish.transport == "fabric";
  if (!known || (colon != text.size() && wish.transport != "verbs")) {
    return Error{
        Status::kInvalidArgument,
        fmt::format("transport \"{}\" is not one of shm, verbs, verbs:DEVICE, fabric", text)};
  }
  if (domain == nullptr) return wish;
  if (wish.transport.empty()) wish.transport = "verbs";
  if (wish.transport == "verbs") return wish;
  return Error{Status::kInvalidArgument,
               fmt::format("ibv_pd works only with transport verbs, and \"{}\" is requested (by "
                           "`transport` or $TALLY_TRANSPORT): leave one of them out",
                           text)};
}

SharedByConnections SharedByConnections::make() {
  return {std::make_shared<FabricProgress>(), std::make_shared<VerbsDevices>()};
}

Result<ChosenConnection> make_connection(rpc::RpcChannel& channel, const json& opened,
                                         const ConnectionWish& wish, const ConnectionSize& size,
                                         const SharedByConnections& shared, Nanos deadline) {
  ConnectionMaker maker(channel, opened, size, shared, deadline);
  const auto chosen = [](MadeConnection made, std::string why,
                         bool second = false) -> Result<ChosenConnection> {
    if (!made) return made.error();
    return ChosenConnection{std::move(made).value(), std::move(why), second};
  };
  if (wish.domain != nullptr) return chosen(maker.verbs(wish), "in the caller's ibv_pd");
  if (wish.transport == "verbs") return chosen(maker.verbs(wish), "as asked for");
  if (wish.transport == "fabric") return chosen(maker.fabric(wish), "as asked for");
  if (wish.transport == "shm") return chosen(maker.shm(), "as asked for");
  // When the best transport fails, takes fabric, which works at every address.
  const auto best = [&](MadeConnection made, const char* name,
                        std::string why) -> Result<ChosenConnection> {
    if (made || !maker.offers("fabric")) return chosen(std::move(made), std::move(why));
    auto second = maker.fabric(wish);
    if (second) {
      return chosen(std::move(second), fmt::format("not {}: {}", name, made.error().message), true);
    }
    return Error{second.status(), fmt::format("{}; nor transport {}: {}", second.error().message,
                                              name, made.error().message)};
  };
  if (maker.on_this_host()) return best(maker.shm(), "shm", "the node is on this host");
  if (!maker.offers("verbs")) return chosen(maker.fabric(wish), "the node does not offer verbs");
  return best(maker.verbs(wish), "verbs", "the best of both ends");
}

}  // namespace tally::client
