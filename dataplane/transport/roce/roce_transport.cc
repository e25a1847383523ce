#include "dataplane/transport/roce/roce_transport.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/random_number.h"
#include "base/system/epoll.h"

namespace tally::transport::roce {
namespace {

constexpr std::uint32_t kPacketNumbers = 1U << 24;
constexpr std::uint32_t kReservedNumbers = 16;  // the first ones have meanings of their own
constexpr std::size_t kOldNumbers = 4096;
// Memory for contributions that come with their notices, of all sessions. A contribution that finds
// no room is read.
constexpr std::size_t kPayloadBytes = 1 << 20;
constexpr std::uint32_t kMoreReceives = 8;  // cancels and probes may come beyond the credit
constexpr std::size_t kEagerBytes = verbs::kEagerBytes;
constexpr Nanos kFirstNap = 100'000;
constexpr Nanos kLongestNap = 2'000'000;

std::uint32_t random_below(std::uint32_t limit) {
  return static_cast<std::uint32_t>(random_number() % limit);
}

IpAddress address_of(const ibv_gid& gid) {
  IpAddress address;
  std::memcpy(address.data(), gid.raw, address.size());
  return address;
}

}  // namespace

RoceTransport::RoceTransport(std::unique_ptr<Link> link, const TransportOptions& options)
    : OneSidedTransport({options.landing_bytes, kPayloadBytes, options.tiles, options.hugepages}),
      link_(std::move(link)),
      options_(options),
      old_numbers_(kOldNumbers),
      read_(options.kept_frames),
      nap_timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      nap_(kFirstNap),
      context_{.link = *link_,
               .address = options.address,
               .tiles = options.tiles,
               .window = options.window} {
  if (!nap_timer_ || !tally::watch(epoll(), nap_timer_.get(), EPOLLIN)) {
    throw std::system_error(errno, std::generic_category(), "a timer of transport roce");
  }
}

RoceTransport::~RoceTransport() {
  for (Peer peer = 0; peer < sessions().all().size(); ++peer) detach(peer);
}

// -- workers -------------------------------------------------------------------------------------

RoceTransport::Connected::Connected(RoceTransport& transport, Peer peer, const PairOptions& options,
                                    const Ends& ends)
    : Endpoint(transport.context_, options, ends, transport.no_memory_,
               sizeof(RingEntry) + kEagerBytes),
      transport_(transport),
      peer_(peer) {}

void RoceTransport::Connected::on_message(const RingEntry& message,
                                          std::span<const std::byte> more) {
  transport_.on_notice(*this, peer_, message, more);
}

void RoceTransport::Connected::on_arrived(const Arrived& arrived, Arrival& arrival) {
  const Operation& read = transport_.operation(static_cast<std::uint32_t>(arrived.id));
  transport_.read_.add(read.index, arrived.offset, mtu(), arrival, read.local);
}

void RoceTransport::Connected::on_done(const Done& done) {
  transport_.end(transport_.operation(static_cast<std::uint32_t>(done.id)),
                 done.fine ? Status::kOk : Status::kPeerLost);
}

// For the connection of a worker or a parent node; the first number that is sent is the caller's.
Result<PairOptions> RoceTransport::pair_options(const verbs::Address& peer) const {
  if (peer.ethernet == 0 || is_ipv4(address_of(peer.gid)) != is_ipv4(options_.address)) {
    return Error{Status::kUnsupported,
                 "the other end has no RoCEv2 address of the family of network.roce_address"};
  }
  PairOptions pair;
  pair.first_expected = Psn(peer.first_packet);
  pair.mtu = std::min(options_.mtu, verbs::bytes_of(static_cast<ibv_mtu>(peer.mtu)));
  pair.reads_out = std::min(peer.reads_in, kReads);
  pair.reads_in = kReads;
  pair.ack_timeout = options_.ack_timeout;
  return pair;
}

Result<verbs::Address> RoceTransport::attach(Peer peer, const verbs::Address& client,
                                             std::uint32_t credit) {
  auto pair = pair_options(client);
  if (!pair) return pair.error();
  verbs::Address own = reserve();
  pair->first_sent = Psn(own.first_packet);
  own.mtu = client.mtu;
  while (verbs::bytes_of(static_cast<ibv_mtu>(own.mtu)) > pair->mtu) --own.mtu;
  auto session = std::make_unique<Connected>(
      *this, peer, *pair, Ends{own.number, client.number, address_of(client.gid)});
  session->post_receives(credit + kMoreReceives);
  Endpoint& endpoint = *session;
  sessions().add(peer, std::move(session));
  numbers_[own.number] = &endpoint;
  return own;
}

void RoceTransport::detach(Peer peer) {
  if (sessions().attached(peer) == nullptr) return;
  Connected& session = connected(*sessions().attached(peer));
  session.broken = session.reported = true;
  retire(session.ends().number);
  OneSidedTransport::remove(peer);
}

// -- parent nodes --------------------------------------------------------------------------------

verbs::Address RoceTransport::reserve() {
  verbs::Address own;
  own.number = new_number();
  own.first_packet = random_below(kPacketNumbers);
  own.mtu = IBV_MTU_4096;
  while (verbs::bytes_of(static_cast<ibv_mtu>(own.mtu)) > options_.mtu) --own.mtu;
  own.reads_in = kReads;
  own.ethernet = 1;
  std::memcpy(own.gid.raw, options_.address.data(), options_.address.size());
  numbers_[own.number] = nullptr;
  return own;
}

Result<ParentPair*> RoceTransport::connect(const verbs::Address& own, const verbs::Address& parent,
                                           std::uint32_t credit) {
  auto pair = pair_options(parent);
  if (!pair) return pair.error();
  pair->first_sent = Psn(own.first_packet);
  parents_.push_back(std::make_unique<ParentPair>(
      context_, *pair, Ends{own.number, parent.number, address_of(parent.gid)}, credit));
  numbers_[own.number] = parents_.back().get();
  return parents_.back().get();
}

void RoceTransport::remove(const verbs::Address& own) {
  retire(own.number);
  std::erase_if(parents_, [&](const auto& one) { return one->ends().number == own.number; });
}

// -- numbers of queue pairs ----------------------------------------------------------------------

// A number that was in use may still be in packets on their way.
std::uint32_t RoceTransport::new_number() {
  const PairNumbers numbers = link_->pair_numbers();
  for (;;) {
    const std::uint32_t number =
        numbers.first + kReservedNumbers + random_below(numbers.count - kReservedNumbers);
    const bool was_used =
        std::find(old_numbers_.begin(), old_numbers_.end(), number) != old_numbers_.end();
    if (!was_used && !numbers_.contains(number)) return number;
  }
}

// Does not allocate, because nothing may keep a connection from its end.
void RoceTransport::retire(std::uint32_t number) {
  numbers_.erase(number);
  old_numbers_[next_old_] = number;
  next_old_ = (next_old_ + 1) % old_numbers_.size();
}

// `last`: of the packet before this one, which usually was for the same queue pair; or null.
Endpoint* RoceTransport::endpoint_of(const Packet& packet, Endpoint* last) const {
  if (last == nullptr || last->ends().number != packet.pair) {
    const auto found = numbers_.find(packet.pair);
    if (found == numbers_.end() || found->second == nullptr) return nullptr;
    last = found->second;
  }
  return is_same(last->ends().peer, packet.route.source) ? last : nullptr;
}

// -- operations ----------------------------------------------------------------------------------

bool RoceTransport::start(Session& session, Operation& operation) {
  return connected(session).start(
      {.kind = operation.kind == Kind::kPull ? WorkKind::kRead : WorkKind::kWrite,
       .id = operation.index,
       .source = operation.local,
       .bytes = operation.bytes,
       .address = operation.remote.address,
       .key = static_cast<std::uint32_t>(operation.remote.key)});
}

bool RoceTransport::send(Session& session, const RingEntry& message) {
  return connected(session).send(message);
}

// The connection delivers the completion after the bytes, also when these are not acknowledged yet.
bool RoceTransport::take_eagerly(Session& session, const Push& push) {
  return push.landing.operation_bytes <= kEagerBytes && eager_write(session, push);
}

void RoceTransport::flush(Session& session) {
  connected(session).pump(monotonic_now());
  link_->flush();
}

void RoceTransport::progress() {
  Nanos now = monotonic_now();
  Endpoint* of_last = nullptr;
  for (std::size_t count = kBurst; count == kBurst;) {
    count = link_->receive(burst_, now);
    for (Arrival& arrival : std::span(burst_).first(count)) {
      of_last = endpoint_of(arrival.packet, of_last);
      if (of_last == nullptr) {
        ++context_.counters.strangers;
      } else {
        ++context_.counters.received;
        nap_ = kFirstNap;
        of_last->take(arrival, now);
      }
      // At once, so that the next burst comes into buffers that are in the caches.
      arrival.frame = Frame();
    }
  }
  context_.permits.set_now(now);
  // Some are left over where the last turn ran out of memory.
  if (context_.still_busy.empty()) context_.still_busy.swap(context_.busy);
  context_.users = context_.still_busy.size() + context_.busy.size();
  while (!context_.still_busy.empty()) {
    Endpoint* const endpoint = context_.still_busy.back();
    context_.still_busy.pop_back();
    endpoint->progress(now);
  }
  link_->flush();
}

// -- sleep ---------------------------------------------------------------------------------------

bool RoceTransport::may_sleep() {
  progress();
  if (!context_.busy.empty()) {
    nap_ = kFirstNap;
    return false;
  }
  itimerspec once{};
  once.it_value.tv_nsec = nap_;
  nap_ = std::min(2 * nap_, kLongestNap);
  return ::timerfd_settime(nap_timer_.get(), 0, &once, nullptr) == 0;
}

void RoceTransport::disarm() {
  const itimerspec never{};
  ::timerfd_settime(nap_timer_.get(), 0, &never, nullptr);
}

Counters RoceTransport::counters() const {
  Counters all = context_.counters;
  for (const auto& [number, endpoint] : numbers_) {
    if (endpoint != nullptr) endpoint->count(all);
  }
  return all;
}

}  // namespace tally::transport::roce
