// One thread's access to a network: a domain of a libfabric provider with its address vector, its
// completion queue and endpoints. Endpoints are reliable datagrams (FI_EP_RDM): tcp everywhere, EFA
// and others where they exist. Messages from one endpoint to another arrive in the order in which
// they were sent (FI_ORDER_SAS). Tally does not rely on an order of reads and writes.
//
// Some providers require that the memory which operations of this side read and write is registered
// (FI_MR_LOCAL). For these, Domain registers the memory, and operations pass its descriptor. For
// the others, the descriptor is null.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/system/fd.h"
#include "dataplane/transport/fabric/library.h"
#include "dataplane/transport/fabric/message.h"

namespace tally::transport::fabric {

// The provider whose addresses are not IP addresses.
inline constexpr const char* kEfa = "efa";

struct CloseFid {
  template <typename T>
  void operator()(T* object) const {
    ::fi_close(&object->fid);
  }
};
template <typename T>
using Fid = std::unique_ptr<T, CloseFid>;

struct DomainOptions {
  std::string address{};   // numeric address of this machine, to which endpoints are bound
  std::string provider{};  // its libfabric name; empty means the best that is available
  bool threads = false;    // more than one thread uses the domain
  bool verbs = false;      // with an empty provider: verbs;ofi_rxm is a candidate too
  // memory that reads of this side fill and writes of this side send; borrowed for the domain's
  // life
  std::vector<std::span<std::byte>> memory{};
  const Library* library = nullptr;  // for tests; null means the system's libfabric
};

using Name = std::vector<std::byte>;  // an endpoint's address, in the provider's format

std::string to_hex(const Name& name);
// Nothing when the text is not the hexadecimal form of 1 to 256 bytes.
std::optional<Name> from_hex(std::string_view text);
// The descriptor that an operation passes for memory of this region; null when the provider does
// not require registration.
inline void* descriptor_of(const Fid<fid_mr>& region) {
  return region ? ::fi_mr_desc(region.get()) : nullptr;
}
// Puts host, a numeric IP address, in place of the unspecified address (0.0.0.0 or ::) of an
// endpoint that was bound to no particular address. Leaves other names as they are.
void fill_in_host(Name& name, const std::string& host);

// For a receive that failed: true when its buffer is used up and must be posted again, false when
// the provider still has it. Nothing when the provider does not say (ofi_rxm, after a message that
// is too long). Any machine that reaches the endpoint can cause such a failure, by a message that
// is too long or that breaks off. The error does not say which sender caused it.
inline std::optional<bool> used_up(const fi_cq_err_entry& error) {
  if ((error.flags & FI_MULTI_RECV) != 0) return true;
  return error.err == FI_ETRUNC ? std::nullopt : std::optional(false);
}

// Owns what it opens, except endpoints and regions, which it gives to its callers: they must end
// before the domain. One thread, unless DomainOptions::threads is set.
class Domain {
 public:
  // Fails with kUnsupported when there is no libfabric or no provider for this address. The message
  // lists the providers that were tried and the reason against each.
  static Result<std::unique_ptr<Domain>> open(const DomainOptions& options);
  // Opens one more domain of the same provider at the same address; this is quick. When the
  // provider requires registration, both share the registrations, so that the memory is pinned
  // once.
  static Result<std::unique_ptr<Domain>> another(const Domain& model);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  // True when the domain must have at most one endpoint at a time: with ofi_rxm, and when the
  // provider requires registration. ofi_rxm leaves the objects on which it waits for an endpoint in
  // the completion queue when the endpoint is closed, and uses them later (seen in 1.17 and in the
  // sources of 2.6).
  bool for_one() const { return registers() || provider_.ends_with(";ofi_rxm"); }
  Result<Fid<fid_ep>> endpoint();
  // Closes an endpoint whose domain goes on. May call `progress`, which reads completions(), before
  // that (provider_sockets.h has the reason).
  void close(Fid<fid_ep>& endpoint, const std::function<void()>& progress) const;
  Result<Name> name_of(fid_ep& endpoint) const;
  std::string text_of(const Name& name) const;  // "10.0.0.1:40000", or the provider's own text
  // Posts a buffer that takes several messages, until it has no room for another (FI_MULTI_RECV).
  // The context comes back with each message. The provider uses both until the endpoint is closed.
  Outcome post_receive(fid_ep& endpoint, std::span<std::byte> buffer, void* descriptor,
                       void* context) const;
  // Sends a message of at most kMessageBytes; the caller may reuse the bytes at once. The context
  // comes back when the message has left, which needs a connection. Returns the result of
  // fi_sendmsg: 0, or a negative error.
  static ssize_t send(fid_ep& endpoint, fi_addr_t to, std::span<const std::byte> message,
                      void* context);
  // Adds an endpoint's address to the address vector. The name comes from a peer, which may send
  // anything: kInvalidArgument when it is not an address of this provider's kind.
  Result<fi_addr_t> insert(std::span<const std::byte> name);
  void remove(fi_addr_t address);

  // Registers memory that every peer with its key, fi_mr_key(), can read and write. The key is a
  // random number when the provider allows a choice.
  Result<Fid<fid_mr>> expose(void* data, std::size_t bytes);
  // False when the provider chooses the keys. An adversary may guess these, because adapters use
  // small numbers.
  bool chooses_keys() const;
  // Registers memory for operations of this side. access: FI_READ | FI_WRITE, or FI_RECV. (With
  // FI_SEND, ofi_rxm would let the peers read it.) The region is null when the provider does not
  // require registration.
  Result<Fid<fid_mr>> for_itself(std::span<std::byte> memory, std::uint64_t access);
  // True when the provider requires that operations use registered memory.
  bool registers() const;
  // The descriptor of the piece of DomainOptions::memory with this byte. Null when the byte is in
  // none, and when the provider does not require registration.
  void* descriptor(const std::byte* data) const;
  // The number by which peers address the first byte of a region: its virtual address or 0, as the
  // provider requires.
  std::uint64_t base_of(const void* data) const;

  fid_cq& completions() { return *completions_; }
  int wait_fd() const { return wait_fd_; }
  // False when something may have arrived already: the caller must not sleep on wait_fd(). For a
  // provider without a descriptor to sleep on, wait_fd() is a timer that soon expires.
  bool may_sleep();

  const std::string& provider() const { return provider_; }
  // For the log: "as configured", "the best", or the reasons against the better providers.
  const std::string& why() const { return why_; }
  const Library& library() const { return library_; }

 private:
  struct FreeInfo {
    const Library* library;
    void operator()(fi_info* info) const { library->freeinfo(info); }
  };
  using Info = std::unique_ptr<fi_info, FreeInfo>;

  // A piece of DomainOptions::memory and its registration.
  struct Known {
    std::span<std::byte> memory;
    Fid<fid_mr> region;
  };
  // What domains that share registrations have in common.
  struct Access {
    Fid<fid_fabric> fabric;
    Fid<fid_domain> domain;
    std::vector<Known> known;
  };

  Domain(const Library& library, std::string_view provider)
      : library_(library), provider_(provider) {}
  static Result<std::unique_ptr<Domain>> open(const Library& library, std::string_view provider,
                                              const DomainOptions& options);
  // Whether wait_fd() watches the provider's sockets.
  bool has_sockets() const { return provider_ == "net" || provider_ == "tcp"; }
  Outcome find(const DomainOptions& options);
  Outcome enter();
  Outcome make_queue();
  Outcome know(std::span<const std::span<std::byte>> memory);
  Error failed(std::string_view what, long error) const;

  const Library& library_;
  Info info_{nullptr, FreeInfo{nullptr}};
  std::string provider_;
  std::string why_;
  std::shared_ptr<Access> access_;
  Fid<fid_av> addresses_;
  Fid<fid_cq> completions_;
  int wait_fd_ = -1;  // borrowed from completions_, or timer_
  UniqueFd timer_;    // empty when the provider has a descriptor to sleep on
};

}  // namespace tally::transport::fabric
