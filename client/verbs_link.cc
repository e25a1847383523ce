#include "client/verbs_link.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "dataplane/transport/answers.h"
#include "dataplane/wire/completion.h"

namespace tally::client {
namespace {

namespace verbs = transport::verbs;

constexpr std::uint32_t kNews = 0;  // among the events
constexpr int kCompletions = 32;
constexpr std::chrono::milliseconds kFenceTurn(1);
// A notice, and what is behind it.
constexpr std::size_t kEagerMessage = sizeof(RingSlot) + verbs::kEagerBytes;
constexpr std::size_t kEagerSlotsBytes = verbs::kEagerSlots * kEagerMessage;
static_assert(verbs::kProbeBytes <= kEagerSlotsBytes);

// A completion's number: the shard, and which of its messages.
std::uint64_t work_id(std::uint32_t shard, std::uint32_t index) {
  return std::uint64_t{shard} << 32 | index;
}

}  // namespace

Result<std::unique_ptr<VerbsLink>> VerbsLink::make(verbs::Api& api,
                                                   const VerbsLinkOptions& options) {
  std::unique_ptr<VerbsLink> link(new VerbsLink(options));
  if (auto done = link->set_up(api); !done) return done.error();
  return link;
}

Outcome VerbsLink::set_up(verbs::Api& api) {
  auto device = verbs::Device::open(api, options_.device);
  if (!device) return device.error();
  device_ = std::move(device).value();
  channel_ = verbs::CompletionChannel(api, api.create_comp_channel(&device_->context()));
  // Notices and cancels within credit, and one completion for each.
  const std::size_t each = std::size_t{4} * options_.credit + 4;
  if (channel_) {
    set_nonblocking(channel_->fd);
    queue_ = verbs::CompletionQueue(
        api, api.create_cq(&device_->context(), static_cast<int>(each * options_.shards),
                           channel_.get()));
  }
  if (!queue_) {
    return Error{Status::kNoMemory,
                 fmt::format("a completion queue on {}: {}", device_->choice().device,
                             verbs::why_not_made(errno))};
  }
  auto events = SessionEvents::make(options_.watch);
  if (!events) return events.error();
  events_ = std::move(events).value();
  const int device_events = device_->event_fd();
  if (!events_.add(channel_->fd, EPOLLIN, kNews) ||
      (device_events >= 0 && !events_.add(device_events, EPOLLIN, kNews))) {
    return Error{Status::kNoMemory,
                 fmt::format("descriptors for a session: {}", std::strerror(errno))};
  }
  for (std::uint32_t i = 0; i < options_.shards; ++i) {
    if (auto added = add_shard(); !added) return added;
  }
  return Unit{};
}

Outcome VerbsLink::add_shard() {
  const std::uint32_t messages = 2 * options_.credit + 2;
  auto pair = verbs::QueuePair::make(*device_, *queue_.get(), {messages, messages},
                                     sizeof(RingSlot), verbs::kNodesAccess);
  if (!pair) return pair.error();
  const auto number = static_cast<std::uint32_t>(shards_.size());
  Shard& shard = *shards_.emplace_back(std::make_unique<Shard>());
  shard.pair = std::move(pair).value();
  const verbs::QueueSizes sizes = shard.pair.sizes();
  shard.messages.resize(sizes.receives + sizes.sends + kEagerSlotsBytes / sizeof(RingSlot));
  auto registered = device_->expose(shard.messages.data(), shard.messages.size() * sizeof(RingSlot),
                                    verbs::kForItself);
  if (!registered) return registered.error();
  shard.registered = std::move(registered).value();
  for (std::uint32_t i = sizes.sends; i-- > 0;) shard.free_sends.push_back(sizes.receives + i);
  for (std::uint32_t i = 0; i < sizes.receives; ++i) {
    if (auto posted = post_receive(number, i); !posted) return posted;
  }
  return Unit{};
}

// Queue pairs go before the memory that they reach.
VerbsLink::~VerbsLink() {
  static_cast<void>(fence(0));
}

nlohmann::json VerbsLink::introduction() const {
  nlohmann::json names = nlohmann::json::array();
  for (const auto& shard : shards_) names.push_back(verbs::to_hex(shard->pair.address()));
  return {{"transport", "verbs"}, {"names", std::move(names)}};
}

// A probe to each shard: whether packets get there and back, only they can tell.
Outcome VerbsLink::attached(const nlohmann::json& names, Nanos deadline) {
  const Error unreadable{Status::kProtocol, "the node's queue pairs cannot be read"};
  if (!names.is_array() || names.size() != options_.shards) return unreadable;
  std::vector<verbs::Address> addresses;
  for (const auto& name : names) {
    auto address = name.is_string() ? verbs::from_hex(name.get<std::string>()) : std::nullopt;
    if (!address) return unreadable;
    addresses.push_back(*address);
  }
  for (std::uint32_t i = 0; i < options_.shards; ++i) {
    Shard& shard = *shards_[i];
    if (auto connected = shard.pair.connect(addresses[i]); !connected) return connected;
    if (auto sent = probe(i); !sent) return sent;
  }
  const auto waits = [](const auto& shard) { return !shard->answered; };
  while (std::any_of(shards_.begin(), shards_.end(), waits) && failed_.empty()) {
    if (arm(kForever)) {
      pollfd news{fd(), POLLIN, 0};
      ::poll(&news, 1, 10);
    }
    if (hear() && failed_.empty()) return Error{Status::kNodeLost, "the node is gone"};
    if (monotonic_now() > deadline) failed_ = "no answer in time";
  }
  if (failed_.empty()) return Unit{};
  return Error{
      Status::kUnsupported,
      fmt::format("no packets get from {} ({}) to the node's {}: {} (tried with {} bytes; where "
                  "switches pass only smaller ones, network.mtu of the node makes them so)",
                  device_->choice().device, verbs::to_text(device_->choice().gid),
                  verbs::to_text(addresses.front().gid), failed_,
                  std::min(options_.probe_bytes, shards_.front()->pair.mtu()))};
}

// As long as a packet can be, where the node takes that.
Outcome VerbsLink::probe(std::uint32_t number) {
  Shard& shard = *shards_[number];
  const std::uint32_t index = shard.free_sends.back();
  shard.free_sends.pop_back();
  const std::uint32_t bytes = std::min(options_.probe_bytes, shard.pair.mtu());
  const std::byte* content =
      shard.messages[shard.messages.size() - kEagerSlotsBytes / sizeof(RingSlot)].bytes;
  const int error =
      post(number, index, content, bytes, bytes > 0 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND);
  if (error == 0) return Unit{};
  return Error{Status::kUnsupported, fmt::format("cannot post: {}", std::strerror(error))};
}

bool VerbsLink::send(std::uint32_t number, const wire::Notice& notice,
                     std::span<const std::byte> contribution) {
  const auto index = free_send(number);
  if (!index) return false;
  const std::byte* eager = with_contribution(*shards_[number], notice, contribution);
  if (eager != nullptr) {
    return post(number, *index, eager, sizeof(RingSlot) + contribution.size()) == 0;
  }
  return post(number, *index, wire::encode(notice)) == 0;
}

bool VerbsLink::send_message(std::uint32_t number, const RingSlot& message) {
  const auto index = free_send(number);
  return index && post(number, *index, message) == 0;
}

std::optional<std::uint32_t> VerbsLink::free_send(std::uint32_t number) {
  Shard& shard = *shards_[number];
  if (shard.free_sends.empty()) poll();
  if (shard.free_sends.empty() || !shard.pair) return std::nullopt;
  const std::uint32_t index = shard.free_sends.back();
  shard.free_sends.pop_back();
  return index;
}

// Null where it is not to go with the notice, or where the operation that last took this turn's
// piece of the node's memory is not over.
std::byte* VerbsLink::with_contribution(Shard& shard, const wire::Notice& notice,
                                        std::span<const std::byte> contribution) {
  const std::uint32_t turn = shard.sent % verbs::kEagerSlots;
  if (contribution.empty() || shard.contributions[turn].under_way) return nullptr;
  shard.contributions[turn] = {true, notice.cookie};
  constexpr std::size_t kSlots = kEagerMessage / sizeof(RingSlot);
  RingSlot* message = &shard.messages[shard.messages.size() - (turn + 1) * kSlots];
  *message = wire::encode(notice);
  std::memcpy(message[1].bytes, contribution.data(), contribution.size());
  return message->bytes;
}

void VerbsLink::end_contribution(Shard& shard, const RingSlot& slot) {
  wire::Completion completion;
  if (wire::parse(slot, completion) != Status::kOk) return;  // the session says so
  if (completion.status == Status::kDuplicate) return;       // the first of the two goes on
  for (auto& contribution : shard.contributions) {
    if (contribution.cookie == completion.cookie) contribution.under_way = false;
  }
}

int VerbsLink::post(std::uint32_t number, std::uint32_t index, const RingSlot& message) {
  RingSlot& own = shards_[number]->messages[index];
  own = message;
  return post(number, index, own.bytes, sizeof own);
}

int VerbsLink::post(std::uint32_t number, std::uint32_t index, const std::byte* message,
                    std::size_t bytes, ibv_wr_opcode opcode) {
  Shard& shard = *shards_[number];
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(message), static_cast<std::uint32_t>(bytes),
                shard.registered->lkey};
  ibv_send_wr request{};
  request.wr_id = work_id(number, index);
  request.sg_list = &piece;
  request.num_sge = bytes > 0 ? 1 : 0;
  request.opcode = opcode;
  const bool short_enough = shard.pair.can_inline() && bytes <= sizeof(RingSlot);
  request.send_flags = short_enough ? IBV_SEND_INLINE : 0;
  ++shard.sent;
  return shard.pair.send(&request);
}

Outcome VerbsLink::post_receive(std::uint32_t number, std::uint32_t index) {
  Shard& shard = *shards_[number];
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(shard.messages[index].bytes), sizeof(RingSlot),
                shard.registered->lkey};
  ibv_recv_wr request{};
  request.wr_id = work_id(number, index);
  request.sg_list = &piece;
  request.num_sge = 1;
  if (const int error = shard.pair.receive(&request); error != 0) {
    return Error{Status::kNoMemory, fmt::format("a receive: {}", std::strerror(error))};
  }
  return Unit{};
}

std::size_t VerbsLink::receive(std::uint32_t shard, std::span<RingSlot> out) {
  auto& completions = shards_[shard]->completions;
  if (completions.empty()) poll();
  return transport::take(completions, out);
}

void VerbsLink::poll() {
  std::array<ibv_wc, kCompletions> completions;
  int count = 0;
  do {
    count = device_->api().poll_cq(queue_.get(), kCompletions, completions.data());
    for (int i = 0; i < count; ++i) on_completion(completions[static_cast<std::size_t>(i)]);
  } while (count == kCompletions);
}

void VerbsLink::on_completion(const ibv_wc& completion) {
  const auto number = static_cast<std::uint32_t>(completion.wr_id >> 32);
  const auto index = static_cast<std::uint32_t>(completion.wr_id);
  Shard& shard = *shards_[number];
  if (!shard.pair) return;  // after the fence
  if (completion.status != IBV_WC_SUCCESS) return fail(completion.status);
  if (index >= shard.pair.sizes().receives) {
    shard.answered = true;
    shard.free_sends.push_back(index);
    return;
  }
  if (completion.byte_len != sizeof(RingSlot)) {
    broken_ = true;
    return;
  }
  shard.completions.push_back(shard.messages[index]);
  end_contribution(shard, shard.messages[index]);
  if (auto posted = post_receive(number, index); !posted) broken_ = true;
}

// An adapter does not tell this end whose request it has refused.
void VerbsLink::fail(ibv_wc_status status) {
  if (!failed_.empty()) return;
  failed_ = verbs::to_text(status);
  const bool callers = std::any_of(exposed_.begin(), exposed_.end(),
                                   [](const auto& region) { return !region.second; });
  if (callers && status != IBV_WC_RETRY_EXC_ERR && status != IBV_WC_RNR_RETRY_EXC_ERR) {
    failed_ +=
        " (are the ibv_mr of its regions still registered, each with IBV_ACCESS_LOCAL_WRITE,"
        " IBV_ACCESS_REMOTE_READ and IBV_ACCESS_REMOTE_WRITE?)";
  }
}

Result<Link::Offer> VerbsLink::offer(const Region& region) {
  std::uint32_t key = 0;
  verbs::MemoryRegion own;
  if (const ibv_mr* registration = region.registration()) {
    if (auto fine = check(*registration); !fine) return fine.error();
    key = registration->rkey;
  } else {
    auto exposed = region.host_accessible()
                       ? device_->expose(region.data(), region.bytes(), verbs::kForTheNode)
                       : device_->expose_dmabuf(region.fd(), region.base_offset(), region.bytes(),
                                                region.address(), verbs::kForTheNode);
    if (!exposed) return exposed.error();
    own = std::move(exposed).value();
    key = own->rkey;
  }
  exposed_[&region] = std::move(own);
  return Offer{{{"bytes", region.bytes()}, {"base", region.address()}, {"key", key}}, {}};
}

// A key opens the memory to the queue pairs of its own domain alone.
Outcome VerbsLink::check(const ibv_mr& registration) const {
  if (registration.pd == &device_->domain()) return Unit{};
  return Error{
      Status::kInvalidArgument,
      options_.device.domain == nullptr
          ? "ibv_mr: the session has a protection domain of its own; open it with the ibv_pd that "
            "the memory is registered in"
          : "ibv_mr: it is registered in another protection domain than the session's ibv_pd"};
}

void VerbsLink::withdraw(const Region& region) {
  exposed_.erase(&region);
}

// News of the queue come once for each time they are asked for.
bool VerbsLink::arm(Nanos until) {
  events_.set_alarm(until);
  while (device_->api().get_cq_event(channel_.get()) == 0) continue;
  if (device_->api().req_notify_cq(queue_.get()) != 0) return false;
  poll();
  return failed_.empty() && !broken_ &&
         std::all_of(shards_.begin(), shards_.end(),
                     [](const auto& shard) { return shard->completions.empty(); });
}

// What the device has to say of a connection, its work completions say too, as long as there are
// any.
bool VerbsLink::hear() {
  const bool ended = events_.hear([this](std::uint32_t) {
    if (device_->event_fd() < 0) return;
    ibv_async_event event{};
    while (device_->api().get_async_event(&device_->context(), &event) == 0) {
      on_event(event.event_type);
      device_->api().ack_async_event(&event);
    }
  });
  poll();
  return ended || !failed_.empty();
}

void VerbsLink::on_event(ibv_event_type type) {
  if (type == IBV_EVENT_DEVICE_FATAL) failed_ = "the RDMA device failed";
  if (type == IBV_EVENT_CQ_ERR) failed_ = "the RDMA device lost a completion queue";
  if (type == IBV_EVENT_QP_FATAL) failed_ = "the RDMA device gave a queue pair up";
}

std::string VerbsLink::why_gone() const {
  return failed_.empty() ? Link::why_gone() : "the RDMA connection failed: " + failed_;
}

// A queue pair that has been destroyed lets nobody in any more.
bool VerbsLink::fence(Nanos deadline) {
  for (const auto& shard : shards_) {
    if (shard->pair) shard->pair.abort();
  }
  const auto all_end = [this] {
    bool ended = true;
    for (const auto& shard : shards_) ended &= shard->pair.end();
    return ended;
  };
  bool fenced = all_end();
  while (!fenced && monotonic_now() < deadline) {
    std::this_thread::sleep_for(kFenceTurn);
    fenced = all_end();
  }
  exposed_.clear();
  return fenced;
}

void VerbsLink::hang_up() {
  events_.forget_all();
}

}  // namespace tally::client
