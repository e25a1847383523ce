#include "client/connections/fabric_connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/random_number.h"
#include "dataplane/transport/shm/segment.h"

namespace tally::client {
namespace {

namespace fabric = transport::fabric;
namespace shm = transport::shm;  // for its doorbells: Dekker's algorithm between two threads

constexpr std::uint32_t kDoorbell = 0;  // index among the events
constexpr std::size_t kBurst = 32;

void drain(int eventfd) {
  std::uint64_t count = 0;
  static_cast<void>(!::read(eventfd, &count, sizeof count));
}

void ring(int eventfd) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(eventfd, &one, sizeof one));
}

}  // namespace

NoticeQueue::NoticeQueue(std::size_t entries)
    : entries_(entries),
      producer_(indices_, entries_),
      consumer_(indices_, entries_),
      contributions_(2 * entries) {}

bool NoticeQueue::push(const RingEntry& notice, std::span<const std::byte> contribution) {
  contributions_[pushed_ % contributions_.size()] = contribution;
  if (!producer_.push(notice)) return false;
  ++pushed_;
  return true;
}

void NoticeQueue::pop(std::vector<OutgoingNotice>& out) {
  std::array<RingEntry, kBurst> notices;
  const std::size_t count = consumer_.pop(notices);
  for (const RingEntry& notice : std::span(notices).first(count)) {
    out.push_back({notice, contributions_[popped_++ % contributions_.size()]});
  }
}

FabricConnection::Shard::Shard(std::size_t entries)
    : notices(entries),
      completion_entries(entries),
      completions_in(completion_indices, completion_entries),
      completions(completion_indices, completion_entries) {}

Result<std::unique_ptr<FabricConnection>> FabricConnection::make(
    const FabricConnectionOptions& options) {
  std::unique_ptr<FabricConnection> connection(new FabricConnection(options));
  if (auto done = connection->set_up(); !done) return done.error();
  return connection;
}

Outcome FabricConnection::set_up() {
  if (options_.progress == nullptr) options_.progress = std::make_shared<FabricProgress>();
  auto domain = Domain::open(
      {.address = options_.local_host, .provider = options_.provider, .threads = true});
  if (!domain) return domain.error();
  domain_ = std::move(domain).value();
  if (domain_->registers()) options_.eager_bytes = 0;  // the provider would need registered buffers
  auto endpoint = domain_->endpoint();
  if (!endpoint) return endpoint.error();
  endpoint_ = std::move(endpoint).value();
  auto name = domain_->name_of(*endpoint_);
  if (!name) return name.error();
  name_ = std::move(name).value();
  secret_ = random_number();
  if (auto open = inbox_.open(*domain_, *endpoint_, options_.shards); !open) return open;
  // Room for notices and cancels within the credit, and for a completion of each.
  const std::size_t entries = std::bit_ceil(std::size_t{2} * options_.credit + 2);
  for (std::uint32_t i = 0; i < options_.shards; ++i) {
    shards_.push_back(std::make_unique<Shard>(entries));
  }
  auto events = SessionEvents::make(options_.watch);
  if (!events) return events.error();
  events_ = std::move(events).value();
  doorbell_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell_ || !events_.add(doorbell_.get(), EPOLLIN, kDoorbell)) {
    return Error{Status::kNoMemory,
                 fmt::format("descriptors for a session: {}", std::strerror(errno))};
  }
  return Unit{};
}

FabricConnection::~FabricConnection() {
  stop();
  exposed_.clear();
  endpoint_.reset();  // before the domain
}

nlohmann::json FabricConnection::introduction() const {
  nlohmann::json self = {
      {"transport", "fabric"}, {"name", fabric::to_hex(name_)}, {"secret", secret_}};
  if (options_.eager_bytes > 0 && options_.eager_results) {
    self["eager_bytes"] = options_.eager_bytes;
  }
  return self;
}

Outcome FabricConnection::attached(const nlohmann::json& names, Nanos deadline) {
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
  auto joined = options_.progress->join();
  if (!joined) return joined.error();
  auto added = (*joined)->add(*this);
  if (!added) {
    options_.progress->leave(**joined);
    return added;
  }
  thread_ = *joined;
  return Unit{};
}

// Opens the connections to all shards. A provider reports a message as sent only when it has a
// connection for it.
Outcome FabricConnection::greet(Nanos deadline) {
  const auto gone = [](const auto& shard) { return shard->greeting.gone; };
  while (true) {
    for (std::uint32_t i = 0; i < options_.shards; ++i) {
      if (auto sent = send_greeting(i); !sent) return sent;
    }
    if (std::all_of(shards_.begin(), shards_.end(), gone)) return Unit{};
    if (read_events()) return Error{Status::kNodeLost, "the node is gone"};
    if (monotonic_now() > deadline) {
      return no_connection(**std::find_if_not(shards_.begin(), shards_.end(), gone));
    }
    if (progress() || !domain_->may_sleep()) continue;
    pollfd source{domain_->wait_fd(), POLLIN, 0};
    ::poll(&source, 1, 1);  // retries soon what the provider refused
  }
}

// Sends a message that nodes of all versions drop, because its secret is wrong.
Outcome FabricConnection::send_greeting(std::uint32_t number) {
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

Error FabricConnection::no_connection(const Shard& shard) const {
  return {Status::kUnsupported,
          fmt::format("no connection from {} to the node's {} ({}): allow the workers' connections "
                      "to all ports of the node, or give libfabric a range (docs/deploy.md)",
                      options_.local_host, shard.place,
                      last_error_.empty() ? "no answer in time" : last_error_)};
}

std::string FabricConnection::description() const {
  return fmt::format("fabric (libfabric's {}, from {}; a thread of the session makes progress)",
                     options_.provider, options_.local_host);
}

// -- the session's thread ------------------------------------------------------------------------

bool FabricConnection::send(std::uint32_t shard, const wire::Notice& notice,
                            std::span<const std::byte> contribution) {
  return give(shard, wire::encode(notice), contribution);
}

bool FabricConnection::send_message(std::uint32_t shard, const RingEntry& message) {
  return give(shard, message, {});
}

// Gives a message to the progress thread. There is no such thread before attached() and after the
// fence.
bool FabricConnection::give(std::uint32_t shard, const RingEntry& message,
                            std::span<const std::byte> contribution) {
  if (thread_ == nullptr || !shards_[shard]->notices.push(message, contribution)) return false;
  thread_->wake();
  return true;
}

std::size_t FabricConnection::receive(std::uint32_t shard, std::span<RingEntry> out) {
  return shards_[shard]->completions.pop(out);
}

Result<Connection::Offer> FabricConnection::offer(const Region& region) {
  auto exposed = domain_->expose(region.data(), region.bytes());
  if (!exposed) return exposed.error();
  Offer offer{{{"bytes", region.bytes()},
               {"base", domain_->base_of(region.data())},
               {"key", ::fi_mr_key(exposed->get())}},
              {}};
  exposed_.add(region, std::move(exposed).value(), domain_->base_of(region.data()));
  return offer;
}

void FabricConnection::withdraw(const Region& region) {
  exposed_.withdraw(region);
}

bool FabricConnection::arm(Nanos until) {
  events_.set_alarm(until);
  shm::fall_asleep(session_sleeps_);
  for (const auto& shard : shards_) {
    if (!shard->completions.empty()) return false;
  }
  return !broken();
}

void FabricConnection::disarm() {
  shm::wake_up(session_sleeps_);
}

bool FabricConnection::read_events() {
  return events_.read([this](std::uint32_t) { drain(doorbell_.get()); });
}

// Without keys and an endpoint, nothing can reach this process's memory any more.
bool FabricConnection::fence(Nanos) {
  stop();
  exposed_.clear();
  endpoint_.reset();
  return true;
}

void FabricConnection::hang_up() {
  events_.forget_all();
}

void FabricConnection::stop() {
  if (thread_ == nullptr) return;
  thread_->remove(*this);
  options_.progress->leave(*std::exchange(thread_, nullptr));
}

// -- the thread that makes progress --------------------------------------------------------------

bool FabricConnection::turn() {
  const bool sent = send_notices();
  return progress() || sent;
}

bool FabricConnection::has_work() {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const auto& shard) { return !shard->notices.empty(); });
}

bool FabricConnection::is_held_up() const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const auto& shard) { return !shard->unsent.empty(); });
}

bool FabricConnection::send_notices() {
  bool any = false;
  for (std::uint32_t i = 0; i < options_.shards; ++i) {
    Shard& shard = *shards_[i];
    shard.notices.pop(shard.unsent);
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

// When no buffer for the contribution is free, the notice goes alone, and the node reads the
// contribution.
ssize_t FabricConnection::send(std::uint32_t number, const OutgoingNotice& outgoing) {
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

void FabricConnection::on_sent(void* context, bool failed) {
  for (SendBuffer& buffer : sends_) {
    if (&buffer.room == context) buffer.used = false;
  }
  for (const auto& shard : shards_) {
    if (&shard->greeting.room != context) continue;
    shard->greeting.given = !failed;  // after a failure greet() sends it again
    shard->greeting.gone = !failed;
  }
}

bool FabricConnection::progress() {
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

// A connection broke: the node's, or that of another process. The control connection shows whether
// the node is gone. An operation that the node does not answer ends at its deadline.
void FabricConnection::on_error() {
  fi_cq_err_entry error{};
  if (::fi_cq_readerr(&domain_->completions(), &error, 0) != 1) return;
  if (inbox_.has(error.op_context)) {
    if (!inbox_.failed(error)) broken_.store(true, std::memory_order_relaxed);
    return;
  }
  last_error_ = domain_->library().text(error.err);
  on_sent(error.op_context, true);
}

void FabricConnection::on_completion(const fi_cq_data_entry& entry) {
  if (entry.op_context == nullptr) return;  // of an injected message
  if ((entry.flags & (FI_RECV | FI_MULTI_RECV)) == 0) return on_sent(entry.op_context, false);
  if ((entry.flags & FI_RECV) != 0 && entry.len > 0) {
    on_message({static_cast<const std::byte*>(entry.buf), entry.len});
  }
  if (!inbox_.taken(entry)) broken_.store(true, std::memory_order_relaxed);
}

// Any process can send to an endpoint. A message without the session's secret is not from the node.
void FabricConnection::on_message(std::span<const std::byte> bytes) {
  const auto message = fabric::open_message(bytes);
  if (!message || message->envelope.secret != secret_) return;
  const std::uint32_t shard = message->envelope.shard;
  if (shard >= options_.shards) return;
  const bool fine =
      exposed_.store(message->behind) && shards_[shard]->completions_in.push(message->content);
  if (!fine) broken_.store(true, std::memory_order_relaxed);
}

}  // namespace tally::client
