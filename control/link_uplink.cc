#include "control/link_uplink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "client/make_link.h"
#include "client/nodes.h"
#include "client/rpc_channel.h"
#include "dataplane/transport/shm/segment.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr Nanos kTry = 200 * kMillisecond;  // to connect, before it is seen whether that is wanted
constexpr Nanos kPause = 20 * kMillisecond;
constexpr Nanos kGoodbye = 1 * kSecond;
constexpr Nanos kFence = 100 * kMillisecond;

}  // namespace

void Patience::end() {
  ended_ = true;
  const std::lock_guard lock(mutex_);
  if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

void Patience::watch(int socket) {
  const std::lock_guard lock(mutex_);
  socket_.reset(socket < 0 ? -1 : ::fcntl(socket, F_DUPFD_CLOEXEC, 0));
  if (over() && socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

Result<std::unique_ptr<LinkUplink>> LinkUplink::connect(const Options& options,
                                                        Patience& patience) {
  while (true) {
    auto made = attempt(options, patience);
    patience.watch(-1);
    if (made) return made;
    // Not there yet; or its placement is still on its way, or over: that is known here by then.
    const bool later =
        made.status() == Status::kUnavailable || made.status() == Status::kStaleEpoch;
    if (patience.over()) return Error{Status::kCancelled, "nobody wants it any more"};
    if (!later || monotonic_now() + kPause >= patience.deadline()) return made.error();
    ::usleep(kPause / kMicrosecond);
  }
}

Result<std::unique_ptr<LinkUplink>> LinkUplink::attempt(const Options& options,
                                                        Patience& patience) {
  const Nanos deadline = patience.deadline();
  auto channel =
      client::RpcChannel::connect(options.address, std::min(deadline, monotonic_now() + kTry));
  if (!channel) return channel.error();
  patience.watch(channel->fd());
  auto opened = channel->call("session.open",
                              {{"version", client::kProtocolVersion},
                               {"job", options.job},
                               {"token", options.token},
                               {"epoch", options.epoch},
                               {"ranks", options.ranks},
                               {"branch", options.node},
                               {"lane", options.lane}},
                              {}, deadline);
  if (!opened) return opened.error();
  client::LinkSize size;
  try {
    size.shards = opened->at("lanes").get<std::uint32_t>();
    size.credit = opened->at("credit").get<std::uint32_t>();
  } catch (const json::exception&) {
    return client::unreadable("session.open", *channel);
  }
  const transport::shm::SegmentGeometry geometry{size.shards, size.credit};
  const bool known = std::all_of(options.lanes.begin(), options.lanes.end(),
                                 [&](std::uint32_t lane) { return lane < size.shards; });
  if (!geometry.valid() || !known) return client::unreadable("session.open", *channel);
  auto made = client::make_link(*channel, *opened, {}, size, deadline);
  if (!made) return made.error();
  const std::string description = fmt::format("{}; {}", made->link->description(), made->why);
  std::unique_ptr<LinkUplink> uplink(
      new LinkUplink(std::move(channel).value(), std::move(made->link), description));
  for (const std::uint32_t lane : options.lanes) {
    if (auto added = uplink->add_slots(lane, options.slots, deadline); !added) return added.error();
  }
  return uplink;
}

Outcome LinkUplink::add_slots(std::uint32_t lane, const protocol::SlotLayout& layout,
                              Nanos deadline) {
  auto region = client::Region::allocate(layout.total_bytes());
  if (!region) return region.error();
  auto offer = link_->offer(**region);
  if (!offer) return offer.error();
  const auto reply =
      channel_.call("region.register", std::move(offer->params), offer->fds, deadline);
  if (!reply) return reply.error();
  (*region)->id = client::read_region(*reply);
  if ((*region)->id == 0) return client::unreadable("region.register", channel_);
  if (lane >= regions_.size()) regions_.resize(lane + 1);
  regions_[lane] = std::move(region).value();
  return Unit{};
}

LinkUplink::LinkUplink(client::RpcChannel channel, std::unique_ptr<client::Link> link,
                       std::string description)
    : channel_(std::move(channel)),
      connection_(::fcntl(channel_.fd(), F_DUPFD_CLOEXEC, 0)),
      link_(std::move(link)),
      description_(std::move(description)) {}

// The node above lets go of the slots before it answers. Without an answer it may not have; what it
// then writes to is memory that it shares, or that its link's end has closed to it.
LinkUplink::~LinkUplink() {
  if (!lost_) {
    static_cast<void>(
        channel_.call("session.close", json::object(), {}, monotonic_now() + kGoodbye));
  }
  static_cast<void>(link_->fence(monotonic_now() + kFence));
  link_->hang_up();
}

void LinkUplink::hang_up() const {
  ::shutdown(connection_.get(), SHUT_RDWR);
}

// Who does not answer hears it by the end of the connection.
void LinkUplink::say_empty(const std::vector<std::uint32_t>& trees) {
  static_cast<void>(
      channel_.call("session.empty", {{"trees", trees}}, {}, monotonic_now() + kGoodbye));
}

void LinkUplink::send(std::uint32_t lane, const RingSlot& message) {
  lost_ |= !link_->send_message(lane, message);
}

std::size_t LinkUplink::receive(std::uint32_t lane, std::span<RingSlot> out) {
  return link_->receive(lane, out);
}

std::span<std::byte> LinkUplink::slots(std::uint32_t lane) const {
  return {regions_[lane]->data(), regions_[lane]->bytes()};
}

std::uint32_t LinkUplink::region(std::uint32_t lane) const {
  return regions_[lane]->id;
}

// Takes the bytes off the doorbells, too.
bool LinkUplink::lost() const {
  lost_ |= link_->hear() || link_->broken();
  return lost_;
}

}  // namespace tally::control
