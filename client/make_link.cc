#include "client/make_link.h"

#include <fmt/format.h>

#include <algorithm>

#include "client/address.h"
#include "client/fabric_link.h"
#include "client/rails_link.h"
#include "client/shm_link.h"
#include "client/verbs_link.h"

namespace tally::client {
namespace {

namespace fabric = transport::fabric;
using nlohmann::json;
using MadeLink = Result<std::unique_ptr<Link>>;

// To see whether packets get to the node: longer than an adapter tries as a rule (queue_pair.h).
constexpr Nanos kFirstMessage = 5 * kSecond;

// One attempt to reach a node whose session has been opened.
class LinkMaker {
 public:
  LinkMaker(RpcChannel& channel, const json& opened, const LinkSize& size, Nanos deadline)
      : channel_(channel), opened_(opened), size_(size), deadline_(deadline) {}

  bool on_this_host() const { return channel_.local_host().empty(); }  // a Unix socket
  bool offers(const char* transport) const { return opened_.contains(transport); }

  MadeLink shm() {
    if (!on_this_host()) {
      return Error{Status::kUnsupported,
                   fmt::format("transport shm needs the node's Unix socket, and {} is not one: use "
                               "unix:/path on the node's own host, or another transport",
                               channel_.address())};
    }
    auto link = ShmLink::make({size_.shards, size_.credit}, channel_.fd());
    if (!link) return link.error();
    auto attached = channel_.call("session.attach", json::object(), (*link)->node_fds(), deadline_);
    if (!attached) return attached.error();
    (*link)->attached();
    return std::unique_ptr<Link>(std::move(*link));
  }

  MadeLink verbs(const LinkWish& wish) {
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
      VerbsLinkOptions options;
      options.device = {.device = wish.device, .host = way.local_host, .domain = wish.domain};
      options.device.ack_timeout = ack_timeout();
      options.shards = static_cast<std::uint32_t>(way.lanes.size());
      options.credit = size_.credit;
      options.eager_bytes = taken("verbs", "eager_bytes", transport::verbs::kEagerBytes);
      options.probe_bytes = taken("verbs", "probe_bytes", transport::verbs::kProbeBytes);
      options.watch = channel_.fd();
      return VerbsLink::make(**api, options);
    };
    return attach<VerbsLink>(*ways, make);
  }

  MadeLink fabric() {
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
    const auto make = [&](const Way& way) {
      FabricLinkOptions options;
      options.provider = provider;
      options.local_host = way.local_host;
      options.remote_host = on_this_host() ? local_host : channel_.remote_host();
      options.shards = static_cast<std::uint32_t>(way.lanes.size());
      options.credit = size_.credit;
      options.eager_bytes = taken("fabric", "eager_bytes", fabric::kEagerBytes);
      options.watch = channel_.fd();
      return FabricLink::make(options);
    };
    return attach<FabricLink>(*ways, make);
  }

 private:
  // Shards that are reached by one of this machine's addresses.
  struct Way {
    std::string local_host;
    std::vector<std::uint32_t> lanes;
  };

  // A node with several NICs says where each lane's shard is (older ones do not); this machine's
  // routes say by which of its own NICs that is reached.
  Result<std::vector<Way>> ways_to_shards(const std::string& local_host, bool all_one) const {
    const auto hosts = opened_.find("hosts");
    if (hosts == opened_.end() || all_one) {
      Way way{local_host, {}};
      for (std::uint32_t lane = 0; lane < size_.shards; ++lane) way.lanes.push_back(lane);
      return std::vector<Way>{way};
    }
    if (!hosts->is_array() || hosts->size() != size_.shards) return broken_offer();
    std::vector<Way> ways;
    Result<std::string> local = std::string();
    for (std::uint32_t lane = 0; lane < size_.shards; ++lane) {
      const json& host = (*hosts)[lane];
      if (!host.is_string()) return broken_offer();
      if (lane == 0 || host != (*hosts)[lane - 1])
        local = local_host_towards(host.get<std::string>());
      if (!local) return local.error();
      auto known = std::find_if(ways.begin(), ways.end(),
                                [&](const Way& way) { return way.local_host == *local; });
      if (known == ways.end()) known = ways.insert(known, Way{*local, {}});
      known->lanes.push_back(lane);
    }
    return ways;
  }

  // Bytes that the node takes behind a notice, or as a probe; older ones take nothing.
  std::uint32_t taken(const char* transport, const char* what, std::uint64_t most) const {
    const std::uint64_t bytes = number(opened_.at(transport), what).value_or(0);
    return static_cast<std::uint32_t>(std::min(bytes, most));
  }

  // The node's are this end's too, as long as they make sense; older ones do not say.
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

  // The two ends tell each other where they are. A link for each way.
  template <typename L, typename Make>
  MadeLink attach(const std::vector<Way>& ways, Make make) {
    std::vector<std::unique_ptr<L>> links;
    json introductions = json::array();
    for (const Way& way : ways) {
      auto link = make(way);
      if (!link) return link.error();
      introductions.push_back((*link)->introduction());
      links.push_back(std::move(link).value());
    }
    auto attached = channel_.call("session.attach", joint(introductions, ways), {}, deadline_);
    if (!attached) return attached.error();
    const auto names = attached->find("names");
    if (names == attached->end() || !names->is_array() || names->size() != size_.shards) {
      return broken_offer();
    }
    for (std::size_t i = 0; i < ways.size(); ++i) {
      json own = json::array();
      for (const std::uint32_t lane : ways[i].lanes) own.push_back((*names)[lane]);
      const Nanos until = std::min(deadline_, monotonic_now() + kFirstMessage);
      if (Outcome done = links[i]->attached(own, until); !done) return done.error();
    }
    if (ways.size() == 1) return std::unique_ptr<Link>(std::move(links.front()));
    std::vector<RailLink> rails;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      rails.push_back({std::move(links[i]), ways[i].lanes});
    }
    auto made = RailsLink::make(std::move(rails));
    if (!made) return made.error();
    return std::unique_ptr<Link>(std::move(*made));
  }

  // What each link says of itself, in one. Queue pairs are told by lane, whosever they are.
  json joint(const json& introductions, const std::vector<Way>& ways) const {
    json all = introductions.front();
    if (ways.size() == 1) return all;
    if (all.contains("names")) {
      all["names"] = json(size_.shards, nullptr);
      for (std::size_t i = 0; i < ways.size(); ++i) {
        for (std::size_t j = 0; j < ways[i].lanes.size(); ++j) {
          all["names"][ways[i].lanes[j]] = introductions[i]["names"][j];
        }
      }
      return all;
    }
    json rails = json::array();
    for (std::size_t i = 0; i < ways.size(); ++i) {
      json& rail = rails.emplace_back(introductions[i]);
      rail.erase("transport");
      rail["lanes"] = ways[i].lanes;
    }
    return {{"transport", all["transport"]}, {"rails", std::move(rails)}};
  }

  RpcChannel& channel_;
  const json& opened_;
  const LinkSize& size_;
  Nanos deadline_;
};

}  // namespace

Result<LinkWish> read_wish(const std::string& text, ibv_pd* domain) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  LinkWish wish{text.substr(0, colon), text.substr(std::min(colon + 1, text.size())), domain};
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
               fmt::format("ibv_pd is of use to transport verbs alone, and \"{}\" is asked for (by "
                           "`transport` or $TALLY_TRANSPORT): leave one of them out",
                           text)};
}

Result<ChosenLink> make_link(RpcChannel& channel, const json& opened, const LinkWish& wish,
                             const LinkSize& size, Nanos deadline) {
  LinkMaker maker(channel, opened, size, deadline);
  const auto chosen = [](MadeLink made, std::string why,
                         bool second = false) -> Result<ChosenLink> {
    if (!made) return made.error();
    return ChosenLink{std::move(made).value(), std::move(why), second};
  };
  if (wish.domain != nullptr) return chosen(maker.verbs(wish), "in the caller's ibv_pd");
  if (wish.transport == "verbs") return chosen(maker.verbs(wish), "as asked for");
  if (wish.transport == "fabric") return chosen(maker.fabric(), "as asked for");
  if (wish.transport == "shm") return chosen(maker.shm(), "as asked for");
  // Where the best cannot be had: fabric, which is at every address.
  const auto best = [&](MadeLink made, const char* name, std::string why) -> Result<ChosenLink> {
    if (made || !maker.offers("fabric")) return chosen(std::move(made), std::move(why));
    auto second = maker.fabric();
    if (second) {
      return chosen(std::move(second), fmt::format("not {}: {}", name, made.error().message), true);
    }
    return Error{second.status(), fmt::format("{}; nor transport {}: {}", second.error().message,
                                              name, made.error().message)};
  };
  if (maker.on_this_host()) return best(maker.shm(), "shm", "the node is on this host");
  if (!maker.offers("verbs")) return chosen(maker.fabric(), "the node does not offer verbs");
  return best(maker.verbs(wish), "verbs", "the best of both ends");
}

}  // namespace tally::client
