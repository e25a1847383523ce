#include "client/make_link.h"

#include <fmt/format.h>

#include "client/fabric_link.h"
#include "client/shm_link.h"

namespace tally::client {
namespace {

using nlohmann::json;

constexpr std::string_view kShm = "shm";
constexpr std::string_view kFabric = "fabric";

bool on_this_host(const RpcChannel& channel) {
  return channel.local_host().empty();  // a Unix socket
}

Result<std::unique_ptr<Link>> make_shm(RpcChannel& channel, const BookConfig& config,
                                       Nanos deadline) {
  const transport::shm::SegmentGeometry geometry{
      static_cast<std::uint32_t>(config.plan.weights.size()), config.credit};
  auto link = ShmLink::make(geometry, channel.fd());
  if (!link) return link.error();
  auto attached = channel.call("session.attach", json::object(), (*link)->node_fds(), deadline);
  if (!attached) return attached.error();
  (*link)->attached();
  return std::unique_ptr<Link>(std::move(*link));
}

Error broken_offer() {
  return {Status::kProtocol,
          "the node's offer of transport fabric cannot be read: is it of another "
          "version?"};
}

Result<std::unique_ptr<Link>> make_fabric(RpcChannel& channel, const json& offer,
                                          const BookConfig& config, Nanos deadline) {
  FabricLinkOptions options;
  try {
    options.provider = offer.at("provider").get<std::string>();
    options.local_host =
        on_this_host(channel) ? offer.at("host").get<std::string>() : channel.local_host();
  } catch (const json::exception&) {
    return broken_offer();
  }
  options.remote_host = on_this_host(channel) ? options.local_host : channel.remote_host();
  options.shards = static_cast<std::uint32_t>(config.plan.weights.size());
  options.credit = config.credit;
  options.watch = channel.fd();
  auto link = FabricLink::make(options);
  if (!link) return link.error();
  auto attached = channel.call("session.attach", (*link)->introduction(), {}, deadline);
  if (!attached) return attached.error();
  const auto names = attached->find("names");
  if (names == attached->end() || !names->is_array()) return broken_offer();
  if (auto ready = (*link)->attached(*names); !ready) return ready.error();
  return std::unique_ptr<Link>(std::move(*link));
}

}  // namespace

Result<std::unique_ptr<Link>> make_link(RpcChannel& channel, const json& opened,
                                        const std::string& wish, const BookConfig& config,
                                        Nanos deadline) {
  if (!wish.empty() && wish != kShm && wish != kFabric) {
    return Error{Status::kInvalidArgument,
                 fmt::format("transport \"{}\" is not one of shm, fabric", wish)};
  }
  const bool here = on_this_host(channel);
  if (wish == kShm && !here) {
    return Error{Status::kUnsupported,
                 fmt::format("transport shm needs the node's Unix socket, and {} is not one: use "
                             "unix:/path on the node's own host, or transport fabric",
                             channel.address())};
  }
  if (wish == kShm || (wish.empty() && here)) return make_shm(channel, config, deadline);
  const auto offer = opened.find("fabric");
  if (offer == opened.end()) {
    return Error{Status::kUnsupported,
                 fmt::format("the node at {} does not offer transport fabric: start it with "
                             "--listen-tcp, in a version that has it",
                             channel.address())};
  }
  return make_fabric(channel, *offer, config, deadline);
}

}  // namespace tally::client
