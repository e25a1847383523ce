#include "client/make_link.h"

#include <fmt/format.h>

#include <algorithm>

#include "client/fabric_link.h"
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
    VerbsLinkOptions options;
    options.device = {.device = wish.device, .host = channel_.local_host(), .domain = wish.domain};
    options.device.ack_timeout = ack_timeout();
    options.shards = size_.shards;
    options.credit = size_.credit;
    options.eager_bytes = eager_bytes("verbs", transport::verbs::kEagerBytes);
    options.watch = channel_.fd();
    auto link = VerbsLink::make(**api, options);
    if (!link) return link.error();
    return attach(std::move(*link), [this](VerbsLink& made, const json& names) {
      return made.attached(names, std::min(deadline_, monotonic_now() + kFirstMessage));
    });
  }

  MadeLink fabric() {
    if (!offers("fabric")) {
      return not_offered("fabric", "with --listen-tcp, in a version that has it");
    }
    FabricLinkOptions options;
    try {
      const json& offer = opened_.at("fabric");
      options.provider = offer.at("provider").get<std::string>();
      options.local_host =
          on_this_host() ? offer.at("host").get<std::string>() : channel_.local_host();
    } catch (const json::exception&) {
      return broken_offer();
    }
    options.remote_host = on_this_host() ? options.local_host : channel_.remote_host();
    options.shards = size_.shards;
    options.credit = size_.credit;
    options.eager_bytes = eager_bytes("fabric", fabric::kEagerBytes);
    options.watch = channel_.fd();
    auto link = FabricLink::make(options);
    if (!link) return link.error();
    return attach(std::move(*link),
                  [](FabricLink& made, const json& names) { return made.attached(names); });
  }

 private:
  // That the node takes behind a notice; older ones take nothing.
  std::uint32_t eager_bytes(const char* transport, std::uint64_t most) const {
    const std::uint64_t bytes = number(opened_.at(transport), "eager_bytes").value_or(0);
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

  // The two ends tell each other where they are.
  template <typename L, typename Ready>
  MadeLink attach(std::unique_ptr<L> link, Ready ready) {
    auto attached = channel_.call("session.attach", link->introduction(), {}, deadline_);
    if (!attached) return attached.error();
    const auto names = attached->find("names");
    if (names == attached->end() || !names->is_array()) return broken_offer();
    if (Outcome done = ready(*link, *names); !done) return done.error();
    return std::unique_ptr<Link>(std::move(link));
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
  if (maker.on_this_host()) return chosen(maker.shm(), "the node is on this host");
  if (!maker.offers("verbs")) return chosen(maker.fabric(), "the node does not offer verbs");
  auto made = maker.verbs(wish);
  if (made || !maker.offers("fabric")) return chosen(std::move(made), "the best of both ends");
  auto second = maker.fabric();
  if (!second) {
    return Error{second.status(), fmt::format("{}; nor transport verbs: {}", second.error().message,
                                              made.error().message)};
  }
  return chosen(std::move(second), "not verbs: " + made.error().message, true);
}

}  // namespace tally::client
