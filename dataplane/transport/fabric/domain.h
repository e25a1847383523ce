// One thread's access to a network: a provider's domain with its address vector and completion
// queue, and endpoints in it. Endpoints are reliable datagrams (FI_EP_RDM): tcp everywhere, EFA and
// others where they exist. Nothing here relies on the order of what travels.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  std::string address;   // of this machine, numeric: where endpoints are bound
  std::string provider;  // as libfabric calls it; empty: the best that is there
  bool threads = false;  // used by more than one thread
};

using Name = std::vector<std::byte>;  // an endpoint's address, as the provider writes it

std::string to_hex(const Name& name);
std::optional<Name> from_hex(std::string_view text);
// An endpoint that was bound to no address in particular is where its machine is.
void fill_in_host(Name& name, const std::string& host);

class Domain {
 public:
  // kUnsupported: there is no libfabric, or no provider for this address; says which were looked
  // at.
  static Result<std::unique_ptr<Domain>> open(const DomainOptions& options);
  // One more of the same provider at the same address; quick.
  static Result<std::unique_ptr<Domain>> another(const Domain& model);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  Result<Fid<fid_ep>> endpoint();
  Result<Name> name_of(fid_ep& endpoint) const;
  // The buffer takes message after message until less than one has room (FI_MULTI_RECV); `context`
  // comes back with each. Both are the provider's until the endpoint is closed.
  Outcome post_receive(fid_ep& endpoint, std::span<std::byte> buffer, void* context) const;
  // From a peer, who may send anything: kInvalidArgument where it is not an address of this kind.
  Result<fi_addr_t> insert(std::span<const std::byte> name);
  void remove(fi_addr_t address);

  // `key`: for providers that let the caller choose; key_of() says which it became.
  Result<Fid<fid_mr>> expose(void* data, std::size_t bytes, std::uint64_t key);
  // Where the remote side says the region begins: its address, or 0.
  std::uint64_t base_of(const void* data) const;

  fid_cq& completions() { return *completions_; }
  int wait_fd() const { return wait_fd_; }
  // False: something may be there already, do not sleep on wait_fd().
  bool may_sleep();

  const std::string& provider() const { return provider_; }
  const Library& library() const { return library_; }

 private:
  struct FreeInfo {
    const Library* library;
    void operator()(fi_info* info) const { library->freeinfo(info); }
  };
  using Info = std::unique_ptr<fi_info, FreeInfo>;

  explicit Domain(const Library& library) : library_(library) {}
  Outcome choose(const DomainOptions& options);
  Outcome make();
  Error failed(std::string_view what, long error) const;

  const Library& library_;
  Info info_{nullptr, FreeInfo{nullptr}};
  std::string provider_;
  Fid<fid_fabric> fabric_;
  Fid<fid_domain> domain_;
  Fid<fid_av> addresses_;
  Fid<fid_cq> completions_;
  int wait_fd_ = -1;
};

}  // namespace tally::transport::fabric
