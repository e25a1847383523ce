// The part of libibverbs that Tally uses, as an interface. The library is opened at run time, so
// that programs that link this also load on machines without it. Tests implement the interface with
// a device of their own.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <utility>

#include "base/result.h"

namespace tally::transport::verbs {

// Each function is the one of verbs.h with the same name: it has its arguments, results and errno,
// except where a comment says otherwise.
class Api {
 public:
  virtual ~Api() = default;

  virtual ibv_device** get_device_list(int* count) = 0;
  virtual void free_device_list(ibv_device** list) = 0;
  virtual const char* get_device_name(ibv_device* device) = 0;
  virtual ibv_context* open_device(ibv_device* device) = 0;
  virtual int close_device(ibv_context* context) = 0;
  virtual int query_device(ibv_context* context, ibv_device_attr* attributes) = 0;
  virtual int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) = 0;
  virtual ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                  std::size_t most) = 0;
  virtual int get_async_event(ibv_context* context, ibv_async_event* event) = 0;
  virtual void ack_async_event(ibv_async_event* event) = 0;

  virtual ibv_pd* alloc_pd(ibv_context* context) = 0;
  virtual int dealloc_pd(ibv_pd* domain) = 0;
  virtual ibv_mr* reg_mr(ibv_pd* domain, void* data, std::size_t bytes, unsigned access) = 0;
  virtual ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                                std::uint64_t iova, int fd, int access) = 0;
  virtual int dereg_mr(ibv_mr* region) = 0;

  virtual ibv_comp_channel* create_comp_channel(ibv_context* context) = 0;
  virtual int destroy_comp_channel(ibv_comp_channel* channel) = 0;
  virtual ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) = 0;
  virtual int resize_cq(ibv_cq* queue, int entries) = 0;
  virtual int destroy_cq(ibv_cq* queue) = 0;
  virtual int get_cq_event(ibv_comp_channel* channel) = 0;  // also acknowledges the event
  virtual int req_notify_cq(ibv_cq* queue) = 0;             // asks for an event at any completion
  virtual int poll_cq(ibv_cq* queue, int most, ibv_wc* completions) = 0;

  virtual ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) = 0;
  virtual int modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) = 0;
  virtual int destroy_qp(ibv_qp* pair) = 0;
  virtual int post_send(ibv_qp* pair, ibv_send_wr* list, ibv_send_wr** bad) = 0;
  virtual int post_recv(ibv_qp* pair, ibv_recv_wr* list, ibv_recv_wr** bad) = 0;
};

// libibverbs itself, opened once and never closed. Any thread. Fails with kUnsupported when
// libibverbs is not installed or too old; the message says what to install.
Result<Api*> system_api();

// Owns an object of the library and releases it with the function Release of the Api. The
// destructor releases the object; it ignores the error of a device that refuses.
template <typename T, int (Api::*Release)(T*)>
class Owned {
 public:
  Owned() = default;
  Owned(Api& api, T* object) : api_(&api), object_(object) {}
  Owned(Owned&& other) noexcept
      : api_(other.api_), object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      static_cast<void>(reset());
      api_ = other.api_;
      object_ = std::exchange(other.object_, nullptr);
    }
    return *this;
  }
  ~Owned() { static_cast<void>(reset()); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  // Releases the object. Returns 0, or the errno of a device that refuses; then the object is still
  // owned.
  int reset() {
    const int error = object_ == nullptr ? 0 : (api_->*Release)(object_);
    if (error == 0) object_ = nullptr;
    return error;
  }
  // Gives up the object without releasing it, because it does not exist any more.
  void forget() { object_ = nullptr; }

 private:
  Api* api_ = nullptr;
  T* object_ = nullptr;
};

using Context = Owned<ibv_context, &Api::close_device>;
using ProtectionDomain = Owned<ibv_pd, &Api::dealloc_pd>;
using MemoryRegion = Owned<ibv_mr, &Api::dereg_mr>;
using CompletionChannel = Owned<ibv_comp_channel, &Api::destroy_comp_channel>;
using CompletionQueue = Owned<ibv_cq, &Api::destroy_cq>;
using QueuePairHandle = Owned<ibv_qp, &Api::destroy_qp>;

}  // namespace tally::transport::verbs
