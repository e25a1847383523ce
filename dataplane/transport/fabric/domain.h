// One thread's access to a network: a provider's domain with its address vector and completion
// queue, and endpoints in it. Endpoints are reliable datagrams (FI_EP_RDM): tcp everywhere, EFA and
// others where they exist. Messages from one endpoint to another arrive in the order in which they
// were sent (FI_ORDER_SAS); nothing relies on an order of reads and writes.
//
// Some providers want to know the memory that operations of this side read and write (FI_MR_LOCAL):
// it is registered, and operations bring its descriptor. The others get none.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "dataplane/transport/fabric/library.h"
#include "dataplane/transport/fabric/message.h"

namespace tally::transport::fabric {

struct CloseFid {
  template <typename T>
  void operator()(T* object) const {
    ::fi_close(&object->fid);
  }
};
template <typename T>
using Fid = std::unique_ptr<T, CloseFid>;

struct DomainOptions {
  std::string address{};   // of this machine, numeric: where endpoints are bound
  std::string provider{};  // as libfabric calls it; empty: the best that is there
  bool threads = false;    // used by more than one thread
  bool verbs = false;      // where none is named: verbs;ofi_rxm may be the best
  // That is read into and written from; borrowed for the domain's life.
  std::vector<std::span<std::byte>> memory{};
  const Library* library = nullptr;  // for tests: instead of the system's
};

using Name = std::vector<std::byte>;  // an endpoint's address, as the provider writes it

std::string to_hex(const Name& name);
std::optional<Name> from_hex(std::string_view text);
// What an operation says of the memory it uses; null where the provider does not ask.
inline void* descriptor_of(const Fid<fid_mr>& region) {
  return region ? ::fi_mr_desc(region.get()) : nullptr;
}
// An endpoint that was bound to no address in particular is where its machine is.
void fill_in_host(Name& name, const std::string& host);

// Of a receive that failed: whether its buffer is used up, and to be posted again. Nothing: the
// provider does not say (ofi_rxm, of a message that is too long). Anybody can bring this about, by
// messages that are too long or that break off; whose they were is not known.
inline std::optional<bool> used_up(const fi_cq_err_entry& error) {
  if ((error.flags & FI_MULTI_RECV) != 0) return true;
  return error.err == FI_ETRUNC ? std::nullopt : std::optional(false);
}

class Domain {
 public:
  // kUnsupported: there is no libfabric, or no provider for this address; says which were looked
  // at, and why it is none of them.
  static Result<std::unique_ptr<Domain>> open(const DomainOptions& options);
  // One more of the same provider at the same address; quick. Where memory is registered both have
  // the same registrations, so that they pin it once.
  static Result<std::unique_ptr<Domain>> another(const Domain& model);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  // True: to have one endpoint at a time. What ofi_rxm waits for on behalf of an endpoint stays
  // with the queue when the endpoint is closed, and is used (seen in 1.17 and in the sources
  // of 2.6).
  bool for_one() const { return registers() || provider_.ends_with(";ofi_rxm"); }
  Result<Fid<fid_ep>> endpoint();
  Result<Name> name_of(fid_ep& endpoint) const;
  std::string text_of(const Name& name) const;  // "10.0.0.1:40000", or how the provider says it
  // The buffer takes message after message until less than one has room (FI_MULTI_RECV); `context`
  // comes back with each. Both are the provider's until the endpoint is closed.
  Outcome post_receive(fid_ep& endpoint, std::span<std::byte> buffer, void* descriptor,
                       void* context) const;
  // A message of at most kMessageBytes; `context` comes back when it is on its way, and it does not
  // get there without a connection. What fi_sendmsg gives.
  static ssize_t send(fid_ep& endpoint, fi_addr_t to, std::span<const std::byte> message,
                      void* context);
  // From a peer, who may send anything: kInvalidArgument where it is not an address of this kind.
  Result<fi_addr_t> insert(std::span<const std::byte> name);
  void remove(fi_addr_t address);

  // `key`: for providers that let the caller choose; key_of() says which it became.
  Result<Fid<fid_mr>> expose(void* data, std::size_t bytes, std::uint64_t key);
  // For operations of this side; `access`: FI_READ | FI_WRITE, or FI_RECV. (With FI_SEND ofi_rxm
  // would let the peers read.) Nothing where the provider does not ask for it.
  Result<Fid<fid_mr>> for_itself(std::span<std::byte> memory, std::uint64_t access);
  bool registers() const;
  // Of DomainOptions::memory; null where the provider does not ask.
  void* descriptor(const std::byte* data) const;
  // Where the remote side says the region begins: its address, or 0.
  std::uint64_t base_of(const void* data) const;

  fid_cq& completions() { return *completions_; }
  int wait_fd() const { return wait_fd_; }
  // False: something may be there already, do not sleep on wait_fd(). A provider that has nothing
  // to sleep on is looked at again soon: a timer.
  bool may_sleep();

  const std::string& provider() const { return provider_; }
  // For the log: that it was named, or why not the better ones.
  const std::string& why() const { return why_; }
  const Library& library() const { return library_; }

 private:
  struct FreeInfo {
    const Library* library;
    void operator()(fi_info* info) const { library->freeinfo(info); }
  };
  using Info = std::unique_ptr<fi_info, FreeInfo>;

  struct Known {
    std::span<std::byte> memory;
    Fid<fid_mr> region;
  };
  struct Access {
    Fid<fid_fabric> fabric;
    Fid<fid_domain> domain;
    std::vector<Known> known;
  };

  Domain(const Library& library, std::string_view provider)
      : library_(library), provider_(provider) {}
  static Result<std::unique_ptr<Domain>> open(const Library& library, std::string_view provider,
                                              const DomainOptions& options);
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
  int wait_fd_ = -1;
  UniqueFd timer_;  // it is, where the provider has none
};

}  // namespace tally::transport::fabric
