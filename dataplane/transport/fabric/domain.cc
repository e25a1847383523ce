#include "dataplane/transport/fabric/domain.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace tally::transport::fabric {
namespace {

constexpr std::uint32_t kApi = FI_VERSION(1, 14);
constexpr std::size_t kCompletions = 1024;

// Best first. "net" is what libfabric 1.17 calls the endpoints of "tcp" that need no layer above.
// EFA and verbs want local memory registered, which is still to come.
constexpr std::array<std::string_view, 3> kProviders = {"tcp", "net", "tcp;ofi_rxm"};

std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (const auto word : words) text += fmt::format("{}{}", text.empty() ? "" : ", ", word);
  return text;
}

// The descriptors that an epoll watches; none where it is not one.
std::vector<int> watched_by(int epoll) {
  std::ifstream info(fmt::format("/proc/self/fdinfo/{}", epoll));
  std::vector<int> found;
  for (std::string line; std::getline(info, line);) {
    int fd = -1;
    if (std::sscanf(line.c_str(), "tfd: %d", &fd) == 1) found.push_back(fd);
  }
  return found;
}

// A queue's descriptor of this provider is an epoll over another one, which watches the sockets,
// and a signal that every completion raises and nobody lowers (fi_trywait does nothing there): it
// would be readable for ever. Completions come from this thread's own progress, so the sockets are
// all there is to wait for.
int sockets_behind(int wait_fd) {
  for (const int fd : watched_by(wait_fd)) {
    if (!watched_by(fd).empty()) return fd;
  }
  return wait_fd;
}

void ask_for(fi_info& hints, bool threads) {
  hints.caps = FI_MSG | FI_RMA | FI_MULTI_RECV;
  hints.mode = FI_CONTEXT | FI_CONTEXT2;  // every operation brings room for the provider
  hints.ep_attr->type = FI_EP_RDM;
  // Not FI_MR_LOCAL: what is read into and written from is not registered (yet).
  hints.domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints.domain_attr->threading = threads ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
  hints.domain_attr->data_progress = FI_PROGRESS_MANUAL;  // no hidden threads
  hints.domain_attr->control_progress = FI_PROGRESS_MANUAL;
  hints.domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints.tx_attr->inject_size = kMessageBytes;
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

Outcome Domain::choose(const DomainOptions& options) {
  const Info hints(library_.dupinfo(nullptr), FreeInfo{&library_});
  if (hints == nullptr) return Error{Status::kNoMemory, "no memory for libfabric's hints"};
  ask_for(*hints, options.threads);
  const Undisturbed undisturbed;  // the first call starts the providers
  const auto wanted = [&](std::string_view provider) {
    return options.provider.empty() || options.provider == provider;
  };
  for (const std::string_view provider : kProviders) {
    if (!wanted(provider)) continue;
    std::string name(provider);
    hints->fabric_attr->prov_name = name.data();
    fi_info* found = nullptr;
    const int error =
        library_.getinfo(kApi, options.address.c_str(), nullptr, FI_SOURCE, hints.get(), &found);
    hints->fabric_attr->prov_name = nullptr;  // it is ours
    if (error != 0) continue;
    const Info list(found, FreeInfo{&library_});
    // Asked for a provider, libfabric also gives those that it has put a layer upon.
    while (found != nullptr && provider != found->fabric_attr->prov_name) found = found->next;
    if (found == nullptr) continue;
    info_ = Info(library_.dupinfo(found), FreeInfo{&library_});
    if (info_ == nullptr) return Error{Status::kNoMemory, "no memory for libfabric's answer"};
    provider_ = provider;
    return Unit{};
  }
  return Error{Status::kUnsupported,
               fmt::format("libfabric has no provider for address {} among {}: is it an address of "
                           "this machine? (fi_info -l lists what is installed)",
                           options.address,
                           options.provider.empty() ? joined(kProviders) : options.provider)};
}

Outcome Domain::make() {
  fid_fabric* fabric = nullptr;
  if (const int error = library_.fabric(info_->fabric_attr, &fabric, nullptr); error != 0) {
    return failed("opening the fabric", error);
  }
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int error = ::fi_domain(fabric, info_.get(), &domain, nullptr); error != 0) {
    return failed("opening the domain", error);
  }
  domain_.reset(domain);
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
  if (const int error = ::fi_cq_open(domain, &cq, &completions, nullptr); error != 0) {
    return failed("making the completion queue", error);
  }
  completions_.reset(completions);
  if (const int error = ::fi_control(&completions->fid, FI_GETWAIT, &wait_fd_); error != 0) {
    return failed("getting a descriptor to sleep on", error);
  }
  if (provider_ == "net" || provider_ == "tcp") wait_fd_ = sockets_behind(wait_fd_);
  return Unit{};
}

Result<std::unique_ptr<Domain>> Domain::open(const DomainOptions& options) {
  auto loaded = fabric::library();
  if (!loaded) return loaded.error();
  std::unique_ptr<Domain> domain(new Domain(**loaded));
  if (auto chosen = domain->choose(options); !chosen) return chosen.error();
  if (auto made = domain->make(); !made) return made.error();
  // Only an endpoint shows whether the address is this machine's.
  if (auto probe = domain->endpoint(); !probe) {
    return Error{probe.status(), fmt::format("{}: is {} an address of this machine?",
                                             probe.error().message, options.address)};
  }
  return domain;
}

Result<std::unique_ptr<Domain>> Domain::another(const Domain& model) {
  std::unique_ptr<Domain> domain(new Domain(model.library_));
  domain->provider_ = model.provider_;
  domain->info_ = Info(model.library_.dupinfo(model.info_.get()), FreeInfo{&model.library_});
  if (domain->info_ == nullptr) return Error{Status::kNoMemory, "no memory for a domain"};
  if (auto made = domain->make(); !made) return made.error();
  return domain;
}

Domain::~Domain() = default;

Result<Fid<fid_ep>> Domain::endpoint() {
  fid_ep* made = nullptr;
  if (const int error = ::fi_endpoint(domain_.get(), info_.get(), &made, nullptr); error != 0) {
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
  if (error != 0) return failed("enabling an endpoint", error);
  return endpoint;
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

Outcome Domain::post_receive(fid_ep& endpoint, std::span<std::byte> buffer, void* context) const {
  iovec part{buffer.data(), buffer.size()};
  fi_msg message{};
  message.msg_iov = &part;
  message.iov_count = 1;
  message.addr = FI_ADDR_UNSPEC;
  message.context = context;
  const ssize_t error = ::fi_recvmsg(&endpoint, &message, FI_MULTI_RECV);
  if (error != 0) return failed("posting a receive", error);
  return Unit{};
}

Result<fi_addr_t> Domain::insert(std::span<const std::byte> name) {
  // libfabric reads as many bytes as its own addresses have, and believes the family.
  const sockaddr* own = static_cast<const sockaddr*>(info_->src_addr);
  sa_family_t family = AF_UNSPEC;
  if (name.size() >= sizeof family) std::memcpy(&family, name.data(), sizeof family);
  if (own == nullptr || name.size() != info_->src_addrlen || family != own->sa_family) {
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

Result<Fid<fid_mr>> Domain::expose(void* data, std::size_t bytes, std::uint64_t key) {
  fid_mr* region = nullptr;
  const int error = ::fi_mr_reg(domain_.get(), data, bytes, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                                key, 0, &region, nullptr);
  if (error != 0) {
    return failed(fmt::format("registering {} bytes", bytes), error);
  }
  return Fid<fid_mr>(region);
}

std::uint64_t Domain::base_of(const void* data) const {
  const bool virtual_addresses = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  return virtual_addresses ? reinterpret_cast<std::uintptr_t>(data) : 0;
}

bool Domain::may_sleep() {
  fid* waiting[] = {&completions_->fid};
  return ::fi_trywait(fabric_.get(), waiting, 1) == 0;
}

}  // namespace tally::transport::fabric
