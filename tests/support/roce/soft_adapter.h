// An RDMA adapter inside this process, for tests: libibverbs with one device, whose packets go over
// a cable. Each context of the device is a machine of its own, with its own address. It checks
// requests as real devices do, and throws std::logic_error when the code under test misuses it.
//
// A program that links soft_system_api.cc has it in place of libibverbs.
#pragma once

#include "dataplane/transport/verbs/api.h"
#include "tests/support/roce/cable.h"

namespace tally::testing {

class SoftAdapter final : public transport::verbs::Api {
 public:
  // Borrows the cable.
  explicit SoftAdapter(Cable& cable) : cable_(cable) { device_.transport_type = IBV_TRANSPORT_IB; }

  ibv_device** get_device_list(int* count) override;
  void free_device_list(ibv_device** list) override;
  const char* get_device_name(ibv_device* device) override;
  ibv_context* open_device(ibv_device* device) override;
  int close_device(ibv_context* context) override;
  int query_device(ibv_context* context, ibv_device_attr* attributes) override;
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) override;
  ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most) override;
  int get_async_event(ibv_context* context, ibv_async_event* event) override;
  void ack_async_event(ibv_async_event*) override {}
  ibv_pd* alloc_pd(ibv_context* context) override;
  int dealloc_pd(ibv_pd* domain) override;
  ibv_mr* reg_mr(ibv_pd* domain, void* data, std::size_t bytes, unsigned access) override;
  ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes, std::uint64_t iova,
                        int fd, int access) override;
  int dereg_mr(ibv_mr* region) override;
  ibv_comp_channel* create_comp_channel(ibv_context* context) override;
  int destroy_comp_channel(ibv_comp_channel* channel) override;
  ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) override;
  int resize_cq(ibv_cq* queue, int entries) override;
  int destroy_cq(ibv_cq* queue) override;
  int get_cq_event(ibv_comp_channel* channel) override;
  int req_notify_cq(ibv_cq* queue) override;
  int poll_cq(ibv_cq* queue, int most, ibv_wc* completions) override;
  ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) override;
  int modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) override;
  int destroy_qp(ibv_qp* pair) override;
  int post_send(ibv_qp* pair, ibv_send_wr* list, ibv_send_wr** bad) override;
  int post_recv(ibv_qp* pair, ibv_recv_wr* list, ibv_recv_wr** bad) override;

 private:
  Cable& cable_;
  ibv_device device_{};
};

}  // namespace tally::testing
