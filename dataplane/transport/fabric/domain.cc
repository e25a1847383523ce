#include "dataplane/transport/fabric/domain.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/clock.h"
#include "base/random_number.h"
#include "base/system/memory_limit.h"
#include "dataplane/transport/fabric/provider_sockets.h"

namespace tally::transport::fabric {
namespace {

constexpr std::uint32_t kApi = FI_VERSION(1, 14);
constexpr std::size_t kCompletions = 1024;

// No operation has more bytes than the largest tile that can be configured.
constexpr std::size_t kLargestOperation = std::size_t{4} << 20;
// The time after which a shard polls a provider again that has no descriptor to sleep on.
constexpr long kNap = 100 * kMicrosecond;

// Best first. "net" is libfabric 1.17's name for the endpoints of "tcp" that need no layer above.
constexpr const char* kVerbs = "verbs;ofi_rxm";
constexpr std::array<std::string_view, 5> kProviders = {kEfa, kVerbs, "tcp", "net", "tcp;ofi_rxm"};

bool tried(std::string_view provider, const DomainOptions& options) {
  if (!options.provider.empty()) return options.provider == provider;
  return provider != kVerbs || options.verbs;
}

std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (const auto word : words) text += fmt::format("{}{}", text.empty() ? "" : ", ", word);
  return text;
}

void ask_for(fi_info& hints, bool threads) {
  hints.caps = FI_MSG | FI_RMA | FI_MULTI_RECV;
  hints.mode = FI_CONTEXT | FI_CONTEXT2;  // every operation has room for the provider's data
  hints.ep_attr->type = FI_EP_RDM;
  // What this transport can do; the provider clears the modes that it does not need.
  hints.domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints.domain_attr->threading = threads ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
  hints.domain_attr->data_progress = FI_PROGRESS_MANUAL;  // no hidden threads
  hints.domain_attr->control_progress = FI_PROGRESS_MANUAL;
  hints.domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints.tx_attr->inject_size = kMessageBytes;
  // A cancel must not overtake its notice.
  hints.tx_attr->msg_order = hints.rx_attr->msg_order = FI_ORDER_SAS;
}

}  // namespace

std::string to_hex(const Name& name) {
  std::string text;
  for (const std::byte byte : name) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

std::optional<Name> from_hex(std::string_view text) {
  if (text.empty() || text.size() % 2 != 0 || text.size() > 512) return std::nullopt;
  Name name(text.size() / 2);
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char* begin = text.data() + 2 * i;
    unsigned value = 0;
    const auto [end, error] = std::from_chars(begin, begin + 2, value, 16);
    if (error != std::errc() || end != begin + 2) return std::nullopt;
    name[i] = std::byte(value);
  }
  return name;
}

void fill_in_host(Name& name, const std::string& host) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (name.size() == sizeof v4) {
    std::memcpy(&v4, name.data(), sizeof v4);
    if (v4.sin_family != AF_INET || v4.sin_addr.s_addr != INADDR_ANY) return;
    ::inet_pton(AF_INET, host.c_str(), &v4.sin_addr);
    std::memcpy(name.data(), &v4, sizeof v4);
  } else if (name.size() == sizeof v6) {
    std::memcpy(&v6, name.data(), sizeof v6);
    if (v6.sin6_family != AF_INET6 || !IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)) return;
    ::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr);
    std::memcpy(name.data(), &v6, sizeof v6);
  }
}

Error Domain::failed(std::string_view what, long error) const {
  return {Status::kUnavailable,
          fmt::format("{} (provider {}): {}", what, provider_, library_.text(error))};
}

Outcome Domain::find(const DomainOptions& options) {
  const Info hints(library_.dupinfo(nullptr), FreeInfo{&library_});
  if (hints == nullptr) return Error{Status::kNoMemory, "no memory for libfabric's hints"};
  ask_for(*hints, options.threads);
  const Undisturbed undisturbed;  // the first call starts the providers
  hints->fabric_attr->prov_name = provider_.data();
  fi_info* found = nullptr;
  // Devices of EFA have no IP address; each device reaches all others.
  const char* address = provider_ == kEfa ? nullptr : options.address.c_str();
  const int error = library_.getinfo(kApi, address, nullptr, address != nullptr ? FI_SOURCE : 0,
                                     hints.get(), &found);
  hints->fabric_attr->prov_name = nullptr;  // the text belongs to this domain, not to the hints
  if (error != 0) return Error{Status::kUnsupported, library_.text(error)};
  const Info list(found, FreeInfo{&library_});
  // For a provider's name, libfabric also returns entries with another provider layered on it.
  while (found != nullptr && provider_ != found->fabric_attr->prov_name) found = found->next;
  if (found == nullptr) return Error{Status::kUnsupported, "only below another"};
  if (found->ep_attr->max_msg_size < kLargestOperation) {
    return Error{Status::kUnsupported,
                 fmt::format("it moves {} bytes at a time, and {} are needed",
                             found->ep_attr->max_msg_size, kLargestOperation)};
  }
  info_ = Info(library_.dupinfo(found), FreeInfo{&library_});
  if (info_ == nullptr) return Error{Status::kNoMemory, "no memory for libfabric's answer"};
  const std::size_t key_bytes = info_->domain_attr->mr_key_size;
  if (chooses_keys() && key_bytes < sizeof(std::uint64_t)) {
    return Error{
        Status::kUnsupported,
        fmt::format("its keys have {} bytes and can be guessed: keys of 8 bytes are needed",
                    key_bytes)};
  }
  return Unit{};
}

Outcome Domain::enter() {
  auto access = std::make_shared<Access>();
  fid_fabric* fabric = nullptr;
  if (const int error = library_.fabric(info_->fabric_attr, &fabric, nullptr); error != 0) {
    return failed("opening the fabric", error);
  }
  access->fabric.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int error = ::fi_domain(fabric, info_.get(), &domain, nullptr); error != 0) {
    return failed("opening the domain", error);
  }
  access->domain.reset(domain);
  access_ = std::move(access);
  return Unit{};
}

Outcome Domain::make_queue() {
  fid_domain* domain = access_->domain.get();
  fi_av_attr av{};
  av.type = FI_AV_UNSPEC;
  fid_av* addresses = nullptr;
  if (const int error = ::fi_av_open(domain, &av, &addresses, nullptr); error != 0) {
    return failed("making the address vector", error);
  }
  addresses_.reset(addresses);
  fi_cq_attr cq{};
  cq.size = kCompletions;
  cq.format = FI_CQ_FORMAT_DATA;
  cq.wait_obj = FI_WAIT_FD;
  fid_cq* completions = nullptr;
  int error = ::fi_cq_open(domain, &cq, &completions, nullptr);
  if (error == -FI_ENOSYS || error == -FI_EOPNOTSUPP) {
    cq.wait_obj = FI_WAIT_NONE;
    timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    error = timer_ ? ::fi_cq_open(domain, &cq, &completions, nullptr) : -errno;
  }
  if (error != 0) return failed("making the completion queue", error);
  completions_.reset(completions);
  if (timer_) {
    wait_fd_ = timer_.get();
    return Unit{};
  }
  error = ::fi_control(&completions->fid, FI_GETWAIT, &wait_fd_);
  if (error != 0) return failed("getting a descriptor to sleep on", error);
  if (has_sockets()) wait_fd_ = sockets_behind(wait_fd_);
  return Unit{};
}

Outcome Domain::know(std::span<const std::span<std::byte>> memory) {
  for (const auto& piece : memory) {
    if (piece.empty()) continue;
    auto region = for_itself(piece, FI_READ | FI_WRITE);
    if (!region) return region.error();
    access_->known.push_back({piece, std::move(region).value()});
  }
  return Unit{};
}

Result<std::unique_ptr<Domain>> Domain::open(const Library& library, std::string_view provider,
                                             const DomainOptions& options) {
  std::unique_ptr<Domain> domain(new Domain(library, provider));
  if (auto found = domain->find(options); !found) return found.error();
  if (auto entered = domain->enter(); !entered) return entered.error();
  if (auto made = domain->make_queue(); !made) return made.error();
  if (auto known = domain->know(options.memory); !known) return known.error();
  // Only an endpoint shows whether the address is this machine's and whether its device can have
  // endpoints.
  if (const auto probe = domain->endpoint(); !probe) return probe.error();
  if (!domain->for_one()) return domain;
  if (auto made = domain->make_queue(); !made) return made.error();  // the probe used the first
  return domain;
}

Result<std::unique_ptr<Domain>> Domain::open(const DomainOptions& options) {
  const Library* library = options.library;
  if (library == nullptr) {
    auto loaded = fabric::library();
    if (!loaded) return loaded.error();
    library = *loaded;
  }
  std::string why;
  for (const std::string_view provider : kProviders) {
    if (!tried(provider, options)) continue;
    auto opened = open(*library, provider, options);
    if (!opened) {
      why += fmt::format("{}not {}: {}", why.empty() ? "" : "; ", provider, opened.error().message);
      continue;
    }
    (*opened)->why_ = !options.provider.empty() ? "as configured" : why.empty() ? "the best" : why;
    return opened;
  }
  return Error{
      Status::kUnsupported,
      fmt::format("libfabric has no provider for address {} among {}: is it an address of "
                  "this machine? (fi_info -l lists what is installed{}{})",
                  options.address, options.provider.empty() ? joined(kProviders) : options.provider,
                  why.empty() ? "" : "; ", why)};
}

Result<std::unique_ptr<Domain>> Domain::another(const Domain& model) {
  std::unique_ptr<Domain> domain(new Domain(model.library_, model.provider_));
  domain->info_ = Info(model.library_.dupinfo(model.info_.get()), FreeInfo{&model.library_});
  if (domain->info_ == nullptr) return Error{Status::kNoMemory, "no memory for libfabric's answer"};
  if (model.registers()) {
    domain->access_ = model.access_;
  } else if (auto entered = domain->enter(); !entered) {
    return entered.error();
  }
  if (auto made = domain->make_queue(); !made) return made.error();
  return domain;
}

Domain::~Domain() = default;

Result<Fid<fid_ep>> Domain::endpoint() {
  fid_ep* made = nullptr;
  if (const int error = ::fi_endpoint(access_->domain.get(), info_.get(), &made, nullptr);
      error != 0) {
    return failed("making an endpoint", error);
  }
  Fid<fid_ep> endpoint(made);
  std::size_t least = kLongestMessage;
  int error = ::fi_ep_bind(made, &addresses_->fid, 0);
  if (error == 0) error = ::fi_ep_bind(made, &completions_->fid, FI_TRANSMIT | FI_RECV);
  if (error == 0) {
    error = ::fi_setopt(&made->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least);
  }
  if (error == 0) error = ::fi_enable(made);
  if (error != 0) {
    return failed(provider_ == kVerbs ? "enabling an endpoint, with completion queues for "
                                        "FI_UNIVERSE_SIZE peers (256 unless set; 16 is enough)"
                                      : "enabling an endpoint",
                  error);
  }
  return endpoint;
}

void Domain::close(Fid<fid_ep>& endpoint, const std::function<void()>& progress) const {
  sockaddr_in6 name{};
  std::size_t bytes = sizeof name;
  if (has_sockets() && ::fi_getname(&endpoint->fid, &name, &bytes) == 0) {
    end_connections(wait_fd_, ntohs(name.sin6_port), progress);
  }
  endpoint.reset();
}

Result<Name> Domain::name_of(fid_ep& endpoint) const {
  Name name(256);
  std::size_t bytes = name.size();
  if (const int error = ::fi_getname(&endpoint.fid, name.data(), &bytes); error != 0) {
    return failed("reading an endpoint's address", error);
  }
  name.resize(bytes);
  return name;
}

std::string Domain::text_of(const Name& name) const {
  std::array<char, 256> text{};
  std::size_t bytes = text.size();
  ::fi_av_straddr(addresses_.get(), name.data(), text.data(), &bytes);
  text.back() = 0;
  const std::string_view line = text.data();  // "fi_sockaddr_in://10.0.0.1:40000"
  const std::size_t kind = line.find("://");
  return std::string(kind == line.npos ? line : line.substr(kind + 3));
}

Outcome Domain::post_receive(fid_ep& endpoint, std::span<std::byte> buffer, void* descriptor,
                             void* context) const {
  iovec part{buffer.data(), buffer.size()};
  fi_msg message{};
  message.msg_iov = &part;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = FI_ADDR_UNSPEC;
  message.context = context;
  const ssize_t error = ::fi_recvmsg(&endpoint, &message, FI_MULTI_RECV);
  if (error != 0) return failed("posting a receive", error);
  return Unit{};
}

ssize_t Domain::send(fid_ep& endpoint, fi_addr_t to, std::span<const std::byte> message,
                     void* context) {
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  fi_msg sent{};
  sent.msg_iov = &part;
  sent.iov_count = 1;
  sent.addr = to;
  sent.context = context;
  return ::fi_sendmsg(&endpoint, &sent, FI_INJECT | FI_COMPLETION);
}

Result<fi_addr_t> Domain::insert(std::span<const std::byte> name) {
  // libfabric reads as many bytes as its own addresses have. When its addresses begin with a
  // family, it trusts the family in the name.
  const auto* own = static_cast<const sockaddr*>(info_->src_addr);
  bool fits = own != nullptr && name.size() == info_->src_addrlen;
  if (fits && info_->addr_format != FI_ADDR_EFA) {
    sa_family_t family = AF_UNSPEC;
    fits = name.size() >= sizeof family;
    if (fits) std::memcpy(&family, name.data(), sizeof family);
    fits = fits && family == own->sa_family;
  }
  if (!fits) {
    return Error{Status::kInvalidArgument,
                 fmt::format("an endpoint's address of {} bytes is not one of provider {} here",
                             name.size(), provider_)};
  }
  fi_addr_t address = FI_ADDR_UNSPEC;
  if (const int count = ::fi_av_insert(addresses_.get(), name.data(), 1, &address, 0, nullptr);
      count != 1) {
    return failed("taking a peer's address", count);
  }
  return address;
}

void Domain::remove(fi_addr_t address) {
  ::fi_av_remove(addresses_.get(), &address, 1, 0);
}

Result<Fid<fid_mr>> Domain::expose(void* data, std::size_t bytes) {
  fid_mr* region = nullptr;
  const int error =
      ::fi_mr_reg(access_->domain.get(), data, bytes, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                  random_number() >> 1, 0, &region, nullptr);
  if (error != 0) {
    return failed(fmt::format("registering {} bytes", bytes), error);
  }
  return Fid<fid_mr>(region);
}

Result<Fid<fid_mr>> Domain::for_itself(std::span<std::byte> memory, std::uint64_t access) {
  if (!registers()) return Fid<fid_mr>();
  fid_mr* region = nullptr;
  const int error = ::fi_mr_reg(access_->domain.get(), memory.data(), memory.size(), access, 0,
                                random_number() >> 1, 0, &region, nullptr);
  if (error != 0) {
    return failed(
        fmt::format("registering {} KiB of memory; {}", memory.size() >> 10, memory_limit()),
        error);
  }
  return Fid<fid_mr>(region);
}

bool Domain::chooses_keys() const {
  return (info_->domain_attr->mr_mode & FI_MR_PROV_KEY) == 0;
}

bool Domain::registers() const {
  return (info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
}

void* Domain::descriptor(const std::byte* data) const {
  for (const Known& known : access_->known) {
    const std::span<std::byte> memory = known.memory;
    const bool here = data >= memory.data() && data < memory.data() + memory.size();
    if (here) return descriptor_of(known.region);
  }
  return nullptr;
}

std::uint64_t Domain::base_of(const void* data) const {
  const bool virtual_addresses = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  return virtual_addresses ? reinterpret_cast<std::uintptr_t>(data) : 0;
}

bool Domain::may_sleep() {
  if (timer_) {
    const itimerspec soon{{0, 0}, {0, kNap}};
    return ::timerfd_settime(timer_.get(), 0, &soon, nullptr) == 0;
  }
  fid* waiting[] = {&completions_->fid};
  return ::fi_trywait(access_->fabric.get(), waiting, 1) == 0;
}

}  // namespace tally::transport::fabric
