#include "client/fabric_link.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/blocked_signals.h"
#include "base/idle.h"
#include "dataplane/transport/shm/segment.h"

namespace tally::client {
namespace {

namespace fabric = transport::fabric;
namespace shm = transport::shm;  // its doorbells: Dekker between two threads

constexpr std::uint32_t kDoorbell = 0;  // among the events
constexpr int kLongestSleepMs = 1000;
constexpr std::size_t kBurst = 32;

void drain(int eventfd) {
  std::uint64_t count = 0;
  static_cast<void>(!::read(eventfd, &count, sizeof count));
}

void ring(int eventfd) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(eventfd, &one, sizeof one));
}

// What strangers must not guess: secrets and keys.
std::uint64_t random_number() {
  std::uint64_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != sizeof number) continue;
  return number;
}

}  // namespace

FabricLink::Shard::Shard(std::size_t slots)
    : notice_slots(slots),
      completion_slots(slots),
      notices(notice_indices, notice_slots),
      notices_out(notice_indices, notice_slots),
      completions_in(completion_indices, completion_slots),
      completions(completion_indices, completion_slots),
      contributions(2 * slots) {}

Result<std::unique_ptr<FabricLink>> FabricLink::make(const FabricLinkOptions& options) {
  std::unique_ptr<FabricLink> link(new FabricLink(options));
  if (auto done = link->set_up(); !done) return done.error();
  return link;
}

Outcome FabricLink::set_up() {
  auto domain = Domain::open(
      {.address = options_.local_host, .provider = options_.provider, .threads = true});
  if (!domain) return domain.error();
  domain_ = std::move(domain).value();
  if (domain_->registers()) options_.eager_bytes = 0;  // buffers would have to be known
  auto endpoint = domain_->endpoint();
  if (!endpoint) return endpoint.error();
  endpoint_ = std::move(endpoint).value();
  auto name = domain_->name_of(*endpoint_);
  if (!name) return name.error();
  name_ = std::move(name).value();
  secret_ = random_number();
  if (auto open = inbox_.open(*domain_, *endpoint_, options_.shards); !open) return open;
  // Notices and cancels within credit, and one completion for each.
  const std::size_t slots = std::bit_ceil(std::size_t{2} * options_.credit + 2);
  for (std::uint32_t i = 0; i < options_.shards; ++i) {
    shards_.push_back(std::make_unique<Shard>(slots));
  }
  auto events = SessionEvents::make(options_.watch);
  if (!events) return events.error();
  events_ = std::move(events).value();
  doorbell_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell_ || !wake_ || !events_.add(doorbell_.get(), EPOLLIN, kDoorbell)) {
    return Error{Status::kNoMemory,
                 fmt::format("descriptors for a session: {}", std::strerror(errno))};
  }
  return Unit{};
}

FabricLink::~FabricLink() {
  stop();
  exposed_.clear();
  endpoint_.reset();  // before the domain
}

nlohmann::json FabricLink::introduction() const {
  nlohmann::json self = {
      {"transport", "fabric"}, {"name", fabric::to_hex(name_)}, {"secret", secret_}};
  if (options_.eager_bytes > 0) self["eager_bytes"] = options_.eager_bytes;
  return self;
}

Outcome FabricLink::attached(const nlohmann::json& names, Nanos deadline) {
  const Error unreadable{Status::kProtocol, "the node's endpoints cannot be read"};
  if (names.size() != options_.shards) return unreadable;
  for (std::uint32_t i = 0; i < options_.shards; ++i) {
    auto name = names[i].is_string() ? fabric::from_hex(names[i].get<std::string>()) : std::nullopt;
    if (!name) return unreadable;
    fabric::fill_in_host(*name, options_.remote_host);
    auto address = domain_->insert(*name);
    if (!address) return address.error();
    shards_[i]->address = *address;
    shards_[i]->place = domain_->text_of(*name);
  }
  if (auto greeted = greet(deadline); !greeted) return greeted;
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
  return Unit{};
}

// A provider has sent a message only when it has a connection for it.
Outcome FabricLink::greet(Nanos deadline) {
  const auto gone = [](const auto& shard) { return shard->greeting.gone; };
  while (true) {
    for (std::uint32_t i = 0; i < options_.shards; ++i) {
      if (auto sent = send_greeting(i); !sent) return sent;
    }
    if (std::all_of(shards_.begin(), shards_.end(), gone)) return Unit{};
    if (hear()) return Error{Status::kNodeLost, "the node is gone"};
    if (monotonic_now() > deadline) {
      return no_connection(**std::find_if_not(shards_.begin(), shards_.end(), gone));
    }
    if (progress() || !domain_->may_sleep()) continue;
    pollfd news{domain_->wait_fd(), POLLIN, 0};
    ::poll(&news, 1, 1);  // what the provider did not take yet is tried again soon
  }
}

// One that says nothing: nodes of all versions drop what does not know the secret.
Outcome FabricLink::send_greeting(std::uint32_t number) {
  Greeting& greeting = shards_[number]->greeting;
  if (greeting.given) return Unit{};
  const fabric::MessageBytes message = fabric::seal({~secret_, number, 0}, {});
  const ssize_t error = Domain::send(*endpoint_, shards_[number]->address, message, &greeting.room);
  if (error != 0 && error != -FI_EAGAIN) {
    last_error_ = domain_->library().text(error);
    return no_connection(*shards_[number]);
  }
  greeting.given = error == 0;
  return Unit{};
}

Error FabricLink::no_connection(const Shard& shard) const {
  return {Status::kUnsupported,
          fmt::format("no connection from {} to the node's {} ({}): allow the workers' connections "
                      "to all ports of the node, or give libfabric a range (docs/deploy.md)",
                      options_.local_host, shard.place,
                      last_error_.empty() ? "no answer in time" : last_error_)};
}

std::string FabricLink::description() const {
  return fmt::format("fabric (libfabric's {}, from {}; a thread of its own makes progress)",
                     options_.provider, options_.local_host);
}

// -- the session's thread ------------------------------------------------------------------------

bool FabricLink::send(std::uint32_t shard, const wire::Notice& notice,
                      std::span<const std::byte> contribution) {
  return give(shard, wire::encode(notice), contribution);
}

bool FabricLink::send_message(std::uint32_t shard, const RingSlot& message) {
  return give(shard, message, {});
}

// To the link's thread.
bool FabricLink::give(std::uint32_t shard, const RingSlot& message,
                      std::span<const std::byte> contribution) {
  Shard& to = *shards_[shard];
  to.contributions[to.given % to.contributions.size()] = contribution;
  if (!to.notices.push(message)) return false;
  ++to.given;
  if (shm::ring_needed(thread_sleeps_)) ring(wake_.get());
  return true;
}

std::size_t FabricLink::receive(std::uint32_t shard, std::span<RingSlot> out) {
  return shards_[shard]->completions.pop(out);
}

Result<Link::Offer> FabricLink::offer(const Region& region) {
  auto exposed = domain_->expose(region.data(), region.bytes(), random_number() >> 1);
  if (!exposed) return exposed.error();
  Offer offer{{{"bytes", region.bytes()},
               {"base", domain_->base_of(region.data())},
               {"key", ::fi_mr_key(exposed->get())}},
              {}};
  exposed_.add(region, std::move(exposed).value(), domain_->base_of(region.data()));
  return offer;
}

void FabricLink::withdraw(const Region& region) {
  exposed_.withdraw(region);
}

bool FabricLink::arm(Nanos until) {
  events_.set_alarm(until);
  shm::fall_asleep(session_sleeps_);
  for (const auto& shard : shards_) {
    if (!shard->completions.empty()) return false;
  }
  return !broken();
}

void FabricLink::disarm() {
  shm::wake_up(session_sleeps_);
}

bool FabricLink::hear() {
  return events_.hear([this](std::uint32_t) { drain(doorbell_.get()); });
}

// Without keys and endpoint nothing can reach this process's memory any more.
bool FabricLink::fence(Nanos) {
  stop();
  exposed_.clear();
  endpoint_.reset();
  return true;
}

void FabricLink::hang_up() {
  events_.forget_all();
}

void FabricLink::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  ring(wake_.get());
  if (thread_.joinable()) thread_.join();
}

// -- the link's own thread -----------------------------------------------------------------------

void FabricLink::run() {
  IdlePolicy idle;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Nanos now = monotonic_now();
    const bool sent = send_notices();
    if (progress() || sent) {
      idle.worked(now);
      continue;
    }
    idle.rest(now, [this] { sleep(); });
  }
}

bool FabricLink::send_notices() {
  bool any = false;
  for (std::uint32_t i = 0; i < options_.shards; ++i) {
    Shard& shard = *shards_[i];
    take_notices(shard);
    std::size_t sent = 0;
    for (; sent < shard.unsent.size(); ++sent) {
      const ssize_t error = send(i, shard.unsent[sent]);
      if (error == -FI_EAGAIN) break;
      if (error != 0) broken_.store(true, std::memory_order_relaxed);
    }
    shard.unsent.erase(shard.unsent.begin(),
                       shard.unsent.begin() + static_cast<std::ptrdiff_t>(sent));
    any |= sent > 0;
  }
  return any;
}

void FabricLink::take_notices(Shard& shard) {
  std::array<RingSlot, kBurst> slots;
  const std::size_t count = shard.notices_out.pop(slots);
  for (const RingSlot& notice : std::span(slots).first(count)) {
    const std::size_t place = shard.taken++ % shard.contributions.size();
    shard.unsent.push_back({notice, shard.contributions[place]});
  }
}

// Without a buffer for its contribution the notice goes alone, and the node reads that.
ssize_t FabricLink::send(std::uint32_t number, const Outgoing& outgoing) {
  const fabric::Envelope envelope{secret_, number, 0};
  const fi_addr_t to = shards_[number]->address;
  const auto free = outgoing.contribution.empty()
                        ? sends_.end()
                        : std::find_if(sends_.begin(), sends_.end(),
                                       [](const SendBuffer& buffer) { return !buffer.used; });
  if (free == sends_.end()) {
    const fabric::MessageBytes message = fabric::seal(envelope, outgoing.notice);
    return ::fi_inject(endpoint_.get(), message.data(), message.size(), to);
  }
  fabric::seal_into(free->bytes, envelope, outgoing.notice);
  std::memcpy(free->bytes.data() + fabric::kMessageBytes, outgoing.contribution.data(),
              outgoing.contribution.size());
  const ssize_t error =
      ::fi_send(endpoint_.get(), free->bytes.data(),
                fabric::kMessageBytes + outgoing.contribution.size(), nullptr, to, &free->room);
  free->used = error == 0;
  return error;
}

void FabricLink::on_sent(void* context, bool failed) {
  for (SendBuffer& buffer : sends_) {
    if (&buffer.room == context) buffer.used = false;
  }
  for (const auto& shard : shards_) {
    if (&shard->greeting.room != context) continue;
    shard->greeting.given = !failed;  // again, if not
    shard->greeting.gone = !failed;
  }
}

bool FabricLink::progress() {
  std::array<fi_cq_data_entry, kBurst> entries;
  const ssize_t count = ::fi_cq_read(&domain_->completions(), entries.data(), entries.size());
  if (count == -FI_EAVAIL) {
    on_error();
    return true;
  }
  for (ssize_t i = 0; i < count; ++i) on_completion(entries[static_cast<std::size_t>(i)]);
  if (count > 0 && shm::ring_needed(session_sleeps_)) ring(doorbell_.get());
  return count > 0;
}

// A connection broke: the node's, or a stranger's. Whether the node is gone the control connection
// knows; an operation that it does not answer ends at its deadline.
void FabricLink::on_error() {
  fi_cq_err_entry error{};
  if (::fi_cq_readerr(&domain_->completions(), &error, 0) != 1) return;
  if (inbox_.has(error.op_context)) {
    if (!inbox_.failed(error)) broken_.store(true, std::memory_order_relaxed);
    return;
  }
  last_error_ = domain_->library().text(error.err);
  on_sent(error.op_context, true);
}

void FabricLink::on_completion(const fi_cq_data_entry& entry) {
  if (entry.op_context == nullptr) return;  // of an injected message
  if ((entry.flags & (FI_RECV | FI_MULTI_RECV)) == 0) return on_sent(entry.op_context, false);
  if ((entry.flags & FI_RECV) != 0 && entry.len > 0) {
    on_message({static_cast<const std::byte*>(entry.buf), entry.len});
  }
  if (!inbox_.taken(entry)) broken_.store(true, std::memory_order_relaxed);
}

// Anybody can send to an endpoint: what does not know the session's secret is not from the node.
void FabricLink::on_message(std::span<const std::byte> bytes) {
  const auto message = fabric::open_message(bytes);
  if (!message || message->envelope.secret != secret_) return;
  const std::uint32_t shard = message->envelope.shard;
  if (shard >= options_.shards) return;
  const bool fine =
      exposed_.store(message->behind) && shards_[shard]->completions_in.push(message->content);
  if (!fine) broken_.store(true, std::memory_order_relaxed);
}

void FabricLink::sleep() {
  shm::fall_asleep(thread_sleeps_);
  bool waiting = false;
  for (const auto& shard : shards_) waiting |= !shard->notices_out.empty();
  if (!waiting && !stopping_.load(std::memory_order_relaxed) && domain_->may_sleep()) {
    std::array<pollfd, 2> sources{{{domain_->wait_fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    // What the provider did not take yet is tried again soon.
    bool unsent = false;
    for (const auto& shard : shards_) unsent |= !shard->unsent.empty();
    ::poll(sources.data(), sources.size(), unsent ? 1 : kLongestSleepMs);
    if (sources[1].revents != 0) drain(wake_.get());
  }
  shm::wake_up(thread_sleeps_);
}

}  // namespace tally::client
