#include "client/connections/verbs_connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "dataplane/transport/answers.h"
#include "dataplane/wire/completion.h"

namespace tally::client {
namespace {

namespace verbs = transport::verbs;

constexpr std::uint32_t kAnyEvent = 0;  // all events are handled alike
constexpr int kCompletions = 32;
constexpr std::chrono::milliseconds kFenceTurn(1);
// A notice and the contribution behind it.
constexpr std::size_t kEagerMessage = sizeof(RingEntry) + verbs::kEagerBytes;
constexpr std::size_t kEagerBuffersBytes = verbs::kEagerPieces * kEagerMessage;
static_assert(verbs::kProbeBytes <= kEagerBuffersBytes);

// The number of a work request: the shard, and the index of its message.
std::uint64_t work_id(std::uint32_t shard, std::uint32_t index) {
  return std::uint64_t{shard} << 32 | index;
}

}  // namespace

Result<std::unique_ptr<VerbsConnection>> VerbsConnection::make(
    verbs::Api& api, const VerbsConnectionOptions& options) {
  std::unique_ptr<VerbsConnection> connection(new VerbsConnection(options));
  if (auto done = connection->set_up(api); !done) return done.error();
  return connection;
}

Outcome VerbsConnection::set_up(verbs::Api& api) {
  if (options_.devices == nullptr) options_.devices = std::make_shared<VerbsDevices>();
  auto opened = options_.devices->open(api, options_.device);
  if (!opened) return opened.error();
  device_ = std::move(opened).value();
  channel_ = verbs::CompletionChannel(api, api.create_comp_channel(&device().context()));
  // Room for notices and cancels within the credit, and for a completion of each.
  const std::size_t each = std::size_t{4} * options_.credit + 4;
  if (channel_) {
    set_nonblocking(channel_->fd);
    queue_ = verbs::CompletionQueue(
        api, api.create_cq(&device().context(), static_cast<int>(each * options_.shards),
                           channel_.get()));
  }
  if (!queue_) {
    return Error{Status::kNoMemory,
                 fmt::format("a completion queue on {}: {}", device().choice().device,
                             verbs::why_not_made(errno))};
  }
  auto events = SessionEvents::make(options_.watch);
  if (!events) return events.error();
  events_ = std::move(events).value();
  const int device_events = device().event_fd();
  if (!events_.add(channel_->fd, EPOLLIN, kAnyEvent) ||
      (device_events >= 0 && !events_.add(device_events, EPOLLIN, kAnyEvent))) {
    return Error{Status::kNoMemory,
                 fmt::format("descriptors for a session: {}", std::strerror(errno))};
  }
  for (std::uint32_t i = 0; i < options_.shards; ++i) {
    if (auto added = add_shard(); !added) return added;
  }
  return Unit{};
}

Outcome VerbsConnection::add_shard() {
  const std::uint32_t messages = 2 * options_.credit + 2;
  auto pair = verbs::QueuePair::make(device(), *queue_.get(), {messages, messages},
                                     sizeof(RingEntry), verbs::kNodesAccess);
  if (!pair) return pair.error();
  const auto number = static_cast<std::uint32_t>(shards_.size());
  Shard& shard = *shards_.emplace_back(std::make_unique<Shard>());
  shard.pair = std::move(pair).value();
  const verbs::QueueSizes sizes = shard.pair.sizes();
  shard.messages.resize(sizes.receives + sizes.sends + kEagerBuffersBytes / sizeof(RingEntry));
  auto registered = device().expose(shard.messages.data(),
                                    shard.messages.size() * sizeof(RingEntry), verbs::kForItself);
  if (!registered) return registered.error();
  shard.registered = std::move(registered).value();
  for (std::uint32_t i = sizes.sends; i-- > 0;) shard.free_sends.push_back(sizes.receives + i);
  for (std::uint32_t i = 0; i < sizes.receives; ++i) {
    if (auto posted = post_receive(number, i); !posted) return posted;
  }
  return Unit{};
}

// Destroys the queue pairs before the memory that they reach.
VerbsConnection::~VerbsConnection() {
  static_cast<void>(fence(0));
}

nlohmann::json VerbsConnection::introduction() const {
  nlohmann::json names = nlohmann::json::array();
  for (const auto& shard : shards_) names.push_back(verbs::to_hex(shard->pair.address()));
  return {{"transport", "verbs"}, {"names", std::move(names)}};
}

// Sends a probe to each shard, because only packets show whether packets get there and back.
Outcome VerbsConnection::attached(const nlohmann::json& names, Nanos deadline) {
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
      pollfd source{fd(), POLLIN, 0};
      ::poll(&source, 1, 10);
    }
    if (read_events() && failed_.empty()) return Error{Status::kNodeLost, "the node is gone"};
    if (monotonic_now() > deadline) failed_ = "no answer in time";
  }
  if (failed_.empty()) return Unit{};
  return Error{
      Status::kUnsupported,
      fmt::format("no packets get from {} ({}) to the node's {}: {} (tried with {} bytes; where "
                  "switches pass only smaller ones, network.mtu of the node makes them so)",
                  device().choice().device, verbs::to_text(device().choice().gid),
                  verbs::to_text(addresses.front().gid), failed_,
                  std::min(options_.probe_bytes, shards_.front()->pair.mtu()))};
}

// The probe is as long as a packet can be, when the node takes such probes.
Outcome VerbsConnection::probe(std::uint32_t number) {
  Shard& shard = *shards_[number];
  const std::uint32_t index = shard.free_sends.back();
  shard.free_sends.pop_back();
  const std::uint32_t bytes = std::min(options_.probe_bytes, shard.pair.mtu());
  const std::byte* content =
      shard.messages[shard.messages.size() - kEagerBuffersBytes / sizeof(RingEntry)].bytes;
  const int error =
      post(number, index, content, bytes, bytes > 0 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND);
  if (error == 0) return Unit{};
  return Error{Status::kUnsupported, fmt::format("cannot post: {}", std::strerror(error))};
}

bool VerbsConnection::send(std::uint32_t number, const wire::Notice& notice,
                           std::span<const std::byte> contribution) {
  const auto index = free_send(number);
  if (!index) return false;
  const std::byte* eager = with_contribution(*shards_[number], notice, contribution);
  if (eager != nullptr) {
    return post(number, *index, eager, sizeof(RingEntry) + contribution.size()) == 0;
  }
  return post(number, *index, wire::encode(notice)) == 0;
}

bool VerbsConnection::send_message(std::uint32_t number, const RingEntry& message) {
  const auto index = free_send(number);
  return index && post(number, *index, message) == 0;
}

std::optional<std::uint32_t> VerbsConnection::free_send(std::uint32_t number) {
  Shard& shard = *shards_[number];
  if (shard.free_sends.empty()) poll();
  if (shard.free_sends.empty() || !shard.pair) return std::nullopt;
  const std::uint32_t index = shard.free_sends.back();
  shard.free_sends.pop_back();
  return index;
}

// Returns null when the contribution must not go with the notice. Also returns null while the
// operation is under way that last used the same piece of the node's memory.
std::byte* VerbsConnection::with_contribution(Shard& shard, const wire::Notice& notice,
                                              std::span<const std::byte> contribution) {
  const std::uint32_t turn = shard.sent % verbs::kEagerPieces;
  if (contribution.empty() || shard.contributions[turn].under_way) return nullptr;
  shard.contributions[turn] = {true, notice.cookie};
  constexpr std::size_t kEntries = kEagerMessage / sizeof(RingEntry);
  RingEntry* message = &shard.messages[shard.messages.size() - (turn + 1) * kEntries];
  *message = wire::encode(notice);
  std::memcpy(message[1].bytes, contribution.data(), contribution.size());
  return message->bytes;
}

void VerbsConnection::end_contribution(Shard& shard, const RingEntry& entry) {
  wire::Completion completion;
  if (wire::parse(entry, completion) != Status::kOk) return;  // the session reports it
  if (completion.status == Status::kDuplicate) return;        // the first notice is still under way
  for (auto& contribution : shard.contributions) {
    if (contribution.cookie == completion.cookie) contribution.under_way = false;
  }
}

int VerbsConnection::post(std::uint32_t number, std::uint32_t index, const RingEntry& message) {
  RingEntry& own = shards_[number]->messages[index];
  own = message;
  return post(number, index, own.bytes, sizeof own);
}

int VerbsConnection::post(std::uint32_t number, std::uint32_t index, const std::byte* message,
                          std::size_t bytes, ibv_wr_opcode opcode) {
  Shard& shard = *shards_[number];
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(message), static_cast<std::uint32_t>(bytes),
                shard.registered->lkey};
  ibv_send_wr request{};
  request.wr_id = work_id(number, index);
  request.sg_list = &piece;
  request.num_sge = bytes > 0 ? 1 : 0;
  request.opcode = opcode;
  const bool short_enough = shard.pair.can_inline() && bytes <= sizeof(RingEntry);
  request.send_flags = short_enough ? IBV_SEND_INLINE : 0;
  ++shard.sent;
  return shard.pair.send(&request);
}

Outcome VerbsConnection::post_receive(std::uint32_t number, std::uint32_t index) {
  Shard& shard = *shards_[number];
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(shard.messages[index].bytes), sizeof(RingEntry),
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

std::size_t VerbsConnection::receive(std::uint32_t shard, std::span<RingEntry> out) {
  auto& completions = shards_[shard]->completions;
  if (completions.empty()) poll();
  return transport::take(completions, out);
}

void VerbsConnection::poll() {
  std::array<ibv_wc, kCompletions> completions;
  int count = 0;
  do {
    count = device().api().poll_cq(queue_.get(), kCompletions, completions.data());
    for (int i = 0; i < count; ++i) on_completion(completions[static_cast<std::size_t>(i)]);
  } while (count == kCompletions);
}

void VerbsConnection::on_completion(const ibv_wc& completion) {
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
  if (completion.byte_len != sizeof(RingEntry)) {
    broken_ = true;
    return;
  }
  shard.completions.push_back(shard.messages[index]);
  end_contribution(shard, shard.messages[index]);
  if (auto posted = post_receive(number, index); !posted) broken_ = true;
}

// An adapter does not report which request of the node it has refused. So the message asks about
// the registrations whenever the caller made some.
void VerbsConnection::fail(ibv_wc_status status) {
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

Result<Connection::Offer> VerbsConnection::offer(const Region& region) {
  std::uint32_t key = 0;
  const ibv_mr* registration = region.registration();
  if (registration != nullptr) {
    if (auto fine = check(*registration); !fine) return fine.error();
    key = registration->rkey;
  } else {
    auto exposed = device_->expose(region);
    if (!exposed) return exposed.error();
    key = *exposed;
  }
  exposed_[&region] = registration == nullptr;
  return Offer{{{"bytes", region.bytes()}, {"base", region.address()}, {"key", key}}, {}};
}

// A key opens the memory only to queue pairs of its own protection domain.
Outcome VerbsConnection::check(const ibv_mr& registration) const {
  if (registration.pd == &device().domain()) return Unit{};
  return Error{
      Status::kInvalidArgument,
      options_.device.domain == nullptr
          ? "ibv_mr: the session has a protection domain of its own; open it with the ibv_pd that "
            "the memory is registered in"
          : "ibv_mr: it is registered in another protection domain than the session's ibv_pd"};
}

void VerbsConnection::withdraw(const Region& region) {
  const auto found = exposed_.find(&region);
  if (found == exposed_.end()) return;
  if (found->second) device_->withdraw(&region);
  exposed_.erase(found);
}

// Regions may have been destroyed. Here their addresses are only keys.
void VerbsConnection::withdraw_all() {
  for (const auto& [region, own] : std::exchange(exposed_, {})) {
    if (own) device_->withdraw(region);
  }
}

// The completion channel gives one event for each req_notify_cq(), so arm() asks again.
bool VerbsConnection::arm(Nanos until) {
  events_.set_alarm(until);
  while (device().api().get_cq_event(channel_.get()) == 0) continue;
  if (device().api().req_notify_cq(queue_.get()) != 0) return false;
  poll();
  return !has_failed() && !broken_ &&
         std::all_of(shards_.begin(), shards_.end(),
                     [](const auto& shard) { return shard->completions.empty(); });
}

bool VerbsConnection::read_events() {
  const bool ended = events_.read([this](std::uint32_t) { device_->read_events(); });
  poll();
  if (failed_.empty()) failed_ = device_->failure();
  return ended || !failed_.empty();
}

std::string VerbsConnection::why_gone() const {
  return failed_.empty() ? Connection::why_gone() : "the RDMA connection failed: " + failed_;
}

// A node cannot reach memory through a queue pair that has been destroyed.
bool VerbsConnection::fence(Nanos deadline) {
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
  withdraw_all();
  return fenced;
}

void VerbsConnection::hang_up() {
  events_.forget_all();
}

}  // namespace tally::client
