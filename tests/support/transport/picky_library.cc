#include "tests/support/transport/picky_library.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <map>
#include <set>

namespace tally::transport::fabric::picky {
namespace {

struct Memory {
  const fid* domain;
  const std::byte* data;
  std::size_t bytes;
  std::uint64_t access;
};

struct Seen {
  std::size_t fine = 0;
  std::size_t refused = 0;
  std::map<const fid_ep*, const fid*> domain_of;
  std::map<void*, Memory> by_descriptor;
  std::map<const void*, std::size_t> registered;
  std::set<const void*> used;
};
Seen seen;  // tests have one thread

// The provider's own calls, and ours in their place.
Library real, ours;
fi_ops_fabric real_fabric, our_fabric;
fi_ops_domain real_domain, our_domain;
fi_ops_mr real_mr, our_mr;
fi_ops_msg real_msg, our_msg;
fi_ops_rma real_rma, our_rma;

bool check(const fid_ep* endpoint, const iovec* parts, std::size_t count, void* const* descriptors,
           std::uint64_t access) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto* data = static_cast<const std::byte*>(parts[i].iov_base);
    const auto known = seen.by_descriptor.find(descriptors != nullptr ? descriptors[i] : nullptr);
    const bool good = known != seen.by_descriptor.end() &&
                      known->second.domain == seen.domain_of[endpoint] &&
                      (known->second.access & access) != 0 && data >= known->second.data &&
                      data + parts[i].iov_len <= known->second.data + known->second.bytes;
    ++(good ? seen.fine : seen.refused);
    if (!good) return false;
    seen.used.insert(data);
  }
  return true;
}

ssize_t receive(fid_ep* endpoint, const fi_msg* message, std::uint64_t flags) {
  if (!check(endpoint, message->msg_iov, message->iov_count, message->desc, FI_RECV))
    return -FI_EINVAL;
  return real_msg.recvmsg(endpoint, message, flags);
}

ssize_t read(fid_ep* endpoint, const fi_msg_rma* message, std::uint64_t flags) {
  if (!check(endpoint, message->msg_iov, message->iov_count, message->desc, FI_READ))
    return -FI_EINVAL;
  return real_rma.readmsg(endpoint, message, flags);
}

ssize_t write(fid_ep* endpoint, const fi_msg_rma* message, std::uint64_t flags) {
  if (!check(endpoint, message->msg_iov, message->iov_count, message->desc, FI_WRITE))
    return -FI_EINVAL;
  return real_rma.writemsg(endpoint, message, flags);
}

int make_endpoint(fid_domain* domain, fi_info* info, fid_ep** made, void* context) {
  const int error = real_domain.endpoint(domain, info, made, context);
  if (error != 0) return error;
  if (info->ep_attr->type != FI_EP_RDM) return 0;  // a connection of the provider's own
  seen.domain_of[*made] = &domain->fid;
  real_msg = our_msg = *(*made)->msg;
  our_msg.recvmsg = receive;
  (*made)->msg = &our_msg;
  real_rma = our_rma = *(*made)->rma;
  our_rma.readmsg = read;
  our_rma.writemsg = write;
  (*made)->rma = &our_rma;
  return 0;
}

int make_queue(fid_domain* domain, fi_cq_attr* wanted, fid_cq** made, void* context) {
  if (wanted->wait_obj != FI_WAIT_NONE) return -FI_ENOSYS;
  return real_domain.cq_open(domain, wanted, made, context);
}

int add_memory(fid* domain, const void* data, std::size_t bytes, std::uint64_t access,
               std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr** made,
               void* context) {
  const int error = real_mr.reg(domain, data, bytes, access, offset, key, flags, made, context);
  if (error == 0 && (access & (FI_READ | FI_WRITE | FI_SEND | FI_RECV)) != 0) {
    seen.by_descriptor[::fi_mr_desc(*made)] = {domain, static_cast<const std::byte*>(data), bytes,
                                               access};
    ++seen.registered[data];
  }
  return error;
}

int make_domain(fid_fabric* fabric, fi_info* info, fid_domain** made, void* context) {
  const int error = real_fabric.domain(fabric, info, made, context);
  if (error != 0) return error;
  real_domain = our_domain = *(*made)->ops;
  our_domain.endpoint = make_endpoint;
  our_domain.cq_open = make_queue;
  (*made)->ops = &our_domain;
  real_mr = our_mr = *(*made)->mr;
  our_mr.reg = add_memory;
  (*made)->mr = &our_mr;
  return 0;
}

int make_fabric(fi_fabric_attr* wanted, fid_fabric** made, void* context) {
  const int error = real.fabric(wanted, made, context);
  if (error != 0) return error;
  real_fabric = our_fabric = *(*made)->ops;
  our_fabric.domain = make_domain;
  (*made)->ops = &our_fabric;
  return 0;
}

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** found) {
  const std::uint64_t order = hints->tx_attr->msg_order & hints->rx_attr->msg_order;
  if ((order & FI_ORDER_SAS) == 0) return -FI_ENODATA;
  const int error = real.getinfo(version, node, service, flags, hints, found);
  for (fi_info* info = error == 0 ? *found : nullptr; info != nullptr; info = info->next) {
    info->domain_attr->mr_mode |= hints->domain_attr->mr_mode;
  }
  return error;
}

}  // namespace

Result<const Library*> library() {
  auto loaded = fabric::library();
  if (!loaded) return loaded.error();
  seen = Seen{};
  real = ours = **loaded;
  ours.getinfo = get_info;
  ours.fabric = make_fabric;
  return &ours;
}

std::size_t fine() {
  return seen.fine;
}

std::size_t refused() {
  return seen.refused;
}

std::size_t registered(const void* data) {
  const auto found = seen.registered.find(data);
  return found != seen.registered.end() ? found->second : 0;
}

bool used(const void* data) {
  return seen.used.contains(data);
}

}  // namespace tally::transport::fabric::picky
