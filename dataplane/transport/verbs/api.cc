#include "dataplane/transport/verbs/api.h"

#include <cerrno>

#include "base/system/shared_library.h"

namespace tally::transport::verbs {
namespace {

// The functions that libibverbs exports. The functions of the data path are called through objects.
class SystemApi final : public Api {
 public:
  Outcome load(SharedLibrary& library) {
    library.find("ibv_get_device_list", get_device_list_);
    library.find("ibv_free_device_list", free_device_list_);
    library.find("ibv_get_device_name", get_device_name_);
    library.find("ibv_open_device", open_device_);
    library.find("ibv_close_device", close_device_);
    library.find("ibv_query_device", query_device_);
    library.find("ibv_query_port", query_port_);
    library.find("_ibv_query_gid_table", query_gid_table_);
    library.find("ibv_get_async_event", get_async_event_);
    library.find("ibv_ack_async_event", ack_async_event_);
    library.find("ibv_alloc_pd", alloc_pd_);
    library.find("ibv_dealloc_pd", dealloc_pd_);
    library.find("ibv_reg_mr_iova2", reg_mr_);
    library.find("ibv_dereg_mr", dereg_mr_);
    library.find("ibv_create_comp_channel", create_comp_channel_);
    library.find("ibv_destroy_comp_channel", destroy_comp_channel_);
    library.find("ibv_create_cq", create_cq_);
    library.find("ibv_resize_cq", resize_cq_);
    library.find("ibv_destroy_cq", destroy_cq_);
    library.find("ibv_get_cq_event", get_cq_event_);
    library.find("ibv_ack_cq_events", ack_cq_events_);
    library.find("ibv_create_qp", create_qp_);
    library.find("ibv_modify_qp", modify_qp_);
    library.find("ibv_destroy_qp", destroy_qp_);
    const Outcome complete = library.check_complete("rdma-core 34 or newer is needed");
    if (!complete) return complete;
    library.keep_open();
    // The rest may be missing.
    library.find("ibv_reg_dmabuf_mr", reg_dmabuf_mr_);  // since rdma-core 34
    // Must come before the first registration. On kernels that do not copy pinned pages at a fork,
    // a child would give the parent's memory other pages than the adapter has. On other kernels it
    // does nothing.
    decltype(&::ibv_fork_init) fork_init = nullptr;
    library.find("ibv_fork_init", fork_init);
    if (fork_init != nullptr) fork_init();
    return Unit{};
  }

  ibv_device** get_device_list(int* count) override { return get_device_list_(count); }
  void free_device_list(ibv_device** list) override { free_device_list_(list); }
  const char* get_device_name(ibv_device* device) override { return get_device_name_(device); }
  ibv_context* open_device(ibv_device* device) override { return open_device_(device); }
  int close_device(ibv_context* context) override { return close_device_(context); }
  int query_device(ibv_context* context, ibv_device_attr* attributes) override {
    return query_device_(context, attributes);
  }
  // The exported function fills the fields of the structure's first version; the others stay 0.
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) override {
    *attributes = {};
    return query_port_(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
  }
  ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most) override {
    return query_gid_table_(context, entries, most, 0, sizeof *entries);
  }
  int get_async_event(ibv_context* context, ibv_async_event* event) override {
    return get_async_event_(context, event);
  }
  void ack_async_event(ibv_async_event* event) override { ack_async_event_(event); }

  ibv_pd* alloc_pd(ibv_context* context) override { return alloc_pd_(context); }
  int dealloc_pd(ibv_pd* domain) override { return dealloc_pd_(domain); }
  ibv_mr* reg_mr(ibv_pd* domain, void* data, std::size_t bytes, unsigned access) override {
    return reg_mr_(domain, data, bytes, reinterpret_cast<std::uintptr_t>(data), access);
  }
  ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes, std::uint64_t iova,
                        int fd, int access) override {
    if (reg_dmabuf_mr_ != nullptr) return reg_dmabuf_mr_(domain, offset, bytes, iova, fd, access);
    errno = EOPNOTSUPP;
    return nullptr;
  }
  int dereg_mr(ibv_mr* region) override { return dereg_mr_(region); }

  ibv_comp_channel* create_comp_channel(ibv_context* context) override {
    return create_comp_channel_(context);
  }
  int destroy_comp_channel(ibv_comp_channel* channel) override {
    return destroy_comp_channel_(channel);
  }
  ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) override {
    return create_cq_(context, entries, nullptr, channel, 0);
  }
  int resize_cq(ibv_cq* queue, int entries) override { return resize_cq_(queue, entries); }
  int destroy_cq(ibv_cq* queue) override { return destroy_cq_(queue); }
  int get_cq_event(ibv_comp_channel* channel) override {
    ibv_cq* queue = nullptr;
    void* user = nullptr;
    const int error = get_cq_event_(channel, &queue, &user);
    if (error == 0) ack_cq_events_(queue, 1);
    return error;
  }
  int req_notify_cq(ibv_cq* queue) override { return ::ibv_req_notify_cq(queue, 0); }
  int poll_cq(ibv_cq* queue, int most, ibv_wc* completions) override {
    return ::ibv_poll_cq(queue, most, completions);
  }

  ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) override {
    return create_qp_(domain, attributes);
  }
  int modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) override {
    return modify_qp_(pair, attributes, mask);
  }
  int destroy_qp(ibv_qp* pair) override { return destroy_qp_(pair); }
  int post_send(ibv_qp* pair, ibv_send_wr* list, ibv_send_wr** bad) override {
    return ::ibv_post_send(pair, list, bad);
  }
  int post_recv(ibv_qp* pair, ibv_recv_wr* list, ibv_recv_wr** bad) override {
    return ::ibv_post_recv(pair, list, bad);
  }

 private:
  decltype(&::ibv_free_device_list) free_device_list_ = nullptr;
  ibv_device** (*get_device_list_)(int*) = nullptr;
  decltype(&::ibv_get_device_name) get_device_name_ = nullptr;
  decltype(&::ibv_open_device) open_device_ = nullptr;
  decltype(&::ibv_close_device) close_device_ = nullptr;
  decltype(&::ibv_query_device) query_device_ = nullptr;
  int (*query_port_)(ibv_context*, std::uint8_t, _compat_ibv_port_attr*) = nullptr;
  decltype(&::_ibv_query_gid_table) query_gid_table_ = nullptr;
  decltype(&::ibv_get_async_event) get_async_event_ = nullptr;
  decltype(&::ibv_ack_async_event) ack_async_event_ = nullptr;
  decltype(&::ibv_alloc_pd) alloc_pd_ = nullptr;
  decltype(&::ibv_dealloc_pd) dealloc_pd_ = nullptr;
  decltype(&::ibv_reg_mr_iova2) reg_mr_ = nullptr;
  decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr_ = nullptr;
  decltype(&::ibv_dereg_mr) dereg_mr_ = nullptr;
  decltype(&::ibv_create_comp_channel) create_comp_channel_ = nullptr;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel_ = nullptr;
  decltype(&::ibv_create_cq) create_cq_ = nullptr;
  decltype(&::ibv_resize_cq) resize_cq_ = nullptr;
  decltype(&::ibv_destroy_cq) destroy_cq_ = nullptr;
  decltype(&::ibv_get_cq_event) get_cq_event_ = nullptr;
  decltype(&::ibv_ack_cq_events) ack_cq_events_ = nullptr;
  decltype(&::ibv_create_qp) create_qp_ = nullptr;
  decltype(&::ibv_modify_qp) modify_qp_ = nullptr;
  decltype(&::ibv_destroy_qp) destroy_qp_ = nullptr;
};

Result<Api*> load() {
  auto library =
      SharedLibrary::open("libibverbs.so.1", "install libibverbs1 and ibverbs-providers");
  if (!library) return library.error();
  static SystemApi api;
  if (const Outcome loaded = api.load(*library); !loaded) return loaded.error();
  return &api;
}

}  // namespace

Result<Api*> system_api() {
  static const Result<Api*> loaded = load();
  return loaded;
}

}  // namespace tally::transport::verbs
