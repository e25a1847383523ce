// How a session begins and ends, and its regions: everything that speaks to the node's control.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/debug_steps.h"
#include "client/address.h"
#include "client/make_link.h"
#include "client/session.h"
#include "dataplane/protocol/granules.h"
#include "dataplane/transport/shm/segment.h"

namespace tally::client {
namespace {

using nlohmann::json;

constexpr int kProtocolVersion = 1;
constexpr Nanos kCallTimeout = 30 * kSecond;  // of control: a region of many GB takes seconds
constexpr Nanos kGoodbye = 5 * kSecond;       // for what is outstanding when a session ends

Error broken_reply(const char* method) {
  return Error{
      Status::kProtocol,
      fmt::format("the node's answer to {} cannot be read: is it of another version?", method)};
}

Result<BookConfig> read_plan(const json& reply, SessionOptions& options) {
  BookConfig config;
  try {
    config.plan.weights = reply.at("weights").get<std::vector<std::uint32_t>>();
    config.plan.split_bytes = reply.at("split_bytes").get<std::uint64_t>();
    config.epoch = reply.at("epoch").get<std::uint32_t>();
    config.credit = reply.at("credit").get<std::uint32_t>();
    if (options.deadline_ms == 0) options.deadline_ms = reply.at("deadline_ms");
  } catch (const json::exception&) {
    return broken_reply("session.open");
  }
  config.rank = options.rank;
  config.ranks = options.ranks;
  const transport::shm::SegmentGeometry geometry{
      static_cast<std::uint32_t>(config.plan.weights.size()), config.credit};
  if (!protocol::valid(config.plan) || !geometry.valid()) return broken_reply("session.open");
  return config;
}

// Null where none are wanted. Both ends must know how: the node says that it does.
Result<const Crc32c*> open_checksums(const json& reply, const SessionOptions& options) {
  if (!*options.checksums) return nullptr;
  const auto offered = reply.find("checksums");
  if (offered != reply.end() && *offered == "crc32c") return Crc32c::open();
  return Error{Status::kUnsupported,
               fmt::format("the node at {} does not check checksums: it is of an older version, or "
                           "has no ISA-L (libisal2); or open the session without them",
                           options.address)};
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(SessionOptions options) {
  if (!options.checksums) {
    const auto said = default_checksums();
    if (!said) return said.error();
    options.checksums = *said;
  }
  const auto wish = read_wish(options.transport, options.domain);
  if (!wish) return wish.error();
  const Nanos deadline = monotonic_now() + options.connect_timeout;
  auto channel = RpcChannel::connect(options.address, deadline);
  if (!channel) return channel.error();
  debug_step(DebugStep::kClientConnected);
  const json hello = {{"version", kProtocolVersion},
                      {"job", options.job},
                      {"token", options.token},
                      {"rank", options.rank},
                      {"ranks", options.ranks}};
  auto opened = channel->call("session.open", hello, {}, deadline);
  if (!opened) return opened.error();
  auto config = read_plan(*opened, options);
  if (!config) return config.error();
  const auto crc32c = open_checksums(*opened, options);
  if (!crc32c) return crc32c.error();
  auto made = make_link(*channel, *opened, *wish, *config, deadline);
  if (!made) return made.error();
  debug_step(DebugStep::kClientAttached);
  std::unique_ptr<Session> session(
      new Session(std::move(options), std::move(channel).value(), std::move(made->link), *config));
  session->crc32c_ = *crc32c;
  const Link& chosen = session->link();
  session->log(
      made->second_best ? 1 : 0,
      fmt::format("rank {} of {}: transport {}; {} (the node at {}), {} shards, credit {}{}",
                  config->rank, config->ranks, chosen.description(), made->why,
                  session->options_.address, chosen.shards(), config->credit,
                  *crc32c != nullptr ? ", with checksums" : ""));
  return session;
}

Session::Session(SessionOptions options, RpcChannel channel, std::unique_ptr<Link> link,
                 BookConfig config)
    : options_(std::move(options)),
      book_config_(config),
      channel_(std::move(channel)),
      link_(std::move(link)),
      book_(config) {}

Session::~Session() {
  debug_step(DebugStep::kClientBeforeClose);
  if (lost_) return;
  drain();
  if (!lost_) {
    // The node lets go of the memory before it answers; without an answer it may not have.
    const auto closed =
        channel_.call("session.close", json::object(), {}, monotonic_now() + kCallTimeout);
    if (!closed) lose(Status::kNodeLost, closed.error().message);
  }
}

// Takes everything outstanding back, so that the memory is the caller's again.
void Session::drain() {
  for (const Pending& pending : pending_) {
    if (book_.outstanding(pending.post.notice.tag)) {
      static_cast<void>(book_.cancel(pending.post.notice.tag, outbound_));
    }
  }
  send(outbound_);
  const Nanos until = monotonic_now() + kGoodbye;
  Completed ignored;
  while (!lost_ && book_.outstanding() > 0) {
    if (wait(ignored, until).status() == Status::kAgain) {
      lose(Status::kNodeLost, "the node does not answer");
    }
  }
}

void Session::log(int level, const std::string& text) const {
  if (options_.log) options_.log(level, text);
}

Result<std::uint32_t> Session::register_region(const Region& region) {
  auto offer = link_->offer(region);
  if (!offer) return offer.error();
  auto reply = channel_.call("region.register", std::move(offer->params), offer->fds,
                             monotonic_now() + kCallTimeout);
  if (!reply) link_->withdraw(region);
  if (!reply) return reply.error();
  const auto found = reply->find("region");
  if (found == reply->end() || !found->is_number_unsigned()) return broken_reply("region.register");
  return found->get<std::uint32_t>();
}

Result<Region*> Session::add_region(std::unique_ptr<Region> region) {
  if (lost_) return *lost_;
  auto id = register_region(*region);
  if (!id) return id.error();
  region->id = *id;
  debug_step(DebugStep::kClientRegionAdded);
  regions_.push_back(std::move(region));
  return regions_.back().get();
}

bool Session::owns(const Region* region) const {
  return std::any_of(regions_.begin(), regions_.end(),
                     [&](const auto& own) { return own.get() == region; });
}

Outcome Session::remove_region(Region* region) {
  if (region->outstanding > 0) {
    return Error{Status::kAgain,
                 fmt::format("{} operations on the region are outstanding", region->outstanding)};
  }
  if (!lost_) {
    auto reply = channel_.call("region.deregister", {{"region", region->id}}, {},
                               monotonic_now() + kCallTimeout);
    // An earlier call that timed out may have done it all the same.
    const bool done =
        reply || reply.status() == Status::kNodeLost || reply.status() == Status::kBadRegion;
    if (!done) return reply.error();
  }
  link_->withdraw(*region);
  std::erase_if(regions_, [&](const auto& own) { return own.get() == region; });
  return Unit{};
}

// For what the node writes and reads beside the data.
Outcome Session::take_side_region(const protocol::Shape& shape, Pending& pending,
                                  wire::Notice& notice) {
  if (pending.post.stats) notice.flags |= wire::kWantStats;
  std::uint64_t bytes = protocol::checksums_offset(shape.count, pending.post.stats);
  if (crc32c_ != nullptr && pending.extents.in.count > 0) {
    notice.flags |= wire::kHasChecksums;
    bytes += protocol::checksum_bytes(shape, book_config_.rank);
  }
  if (notice.flags == 0) return Unit{};
  auto region = side_region(bytes);
  if (!region) return region.error();
  pending.side = *region;
  notice.side_region = pending.side->id;
  return Unit{};
}

// Memory of the session's own: a pool, since registration costs a call. In few sizes, so that
// operations of any size soon find what others have used.
Result<Region*> Session::side_region(std::uint64_t bytes) {
  constexpr std::uint64_t kLeast = 4096;
  const std::uint64_t wanted = std::bit_ceil(std::max(bytes, kLeast));
  for (const auto& region : side_regions_) {
    if (region->outstanding == 0 && region->bytes() == wanted) return region.get();
  }
  auto made = Region::allocate(wanted);
  if (!made) return made.error();
  auto id = register_region(**made);
  if (!id) return id.error();
  (*made)->id = *id;
  side_regions_.push_back(std::move(made).value());
  return side_regions_.back().get();
}

}  // namespace tally::client
