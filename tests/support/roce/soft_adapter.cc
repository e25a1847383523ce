#include "tests/support/roce/soft_adapter.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/support/roce/soft_device.h"

namespace tally::testing {
namespace {

constexpr int kMostReads = 16;
constexpr std::uint32_t kMostInline = 256;

SoftDevice& soft(ibv_context* context) {
  return static_cast<SoftDevice&>(*context);
}

int take_event(int eventfd) {
  std::uint64_t count = 0;
  return ::read(eventfd, &count, sizeof count) == sizeof count ? 0 : -1;
}

ibv_mr* add(ibv_pd* domain, std::unique_ptr<SoftRegion> region) {
  SoftDevice& device = soft(domain->context);
  const SoftDevice::Guard guard(device.lock());
  region->context = domain->context;
  region->pd = domain;
  region->lkey = region->rkey = device.next_number++;
  return (device.regions[region->rkey] = std::move(region)).get();
}

// Whether the kernel could pin the memory. It cannot pin memory of a CUDA of the process.
bool can_be_pinned(void* data) {
  std::byte byte{};
  const iovec to{&byte, 1};
  const iovec from{data, 1};
  return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == 1;
}

}  // namespace

// -- devices -------------------------------------------------------------------------------------

ibv_device** SoftAdapter::get_device_list(int* count) {
  *count = 1;
  return new ibv_device* [2] { &device_, nullptr };
}

void SoftAdapter::free_device_list(ibv_device** list) {
  delete[] list;
}

const char* SoftAdapter::get_device_name(ibv_device*) {
  return "soft0";
}

ibv_context* SoftAdapter::open_device(ibv_device* device) {
  return new SoftDevice(cable_, *device);
}

int SoftAdapter::close_device(ibv_context* context) {
  SoftDevice& device = soft(context);
  {
    const SoftDevice::Guard guard(device.lock());
    if (device.others > 0 || !device.regions.empty() || !device.pairs.empty()) {
      misused("a device is closed before its objects");
    }
  }
  delete &device;
  return 0;
}

int SoftAdapter::query_device(ibv_context*, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = kMostReads;
  attributes->max_qp_wr = 4096;
  attributes->max_cqe = 1 << 20;
  return 0;
}

int SoftAdapter::query_port(ibv_context*, std::uint8_t, ibv_port_attr* attributes) {
  *attributes = {};
  attributes->state = IBV_PORT_ACTIVE;
  attributes->active_mtu = IBV_MTU_4096;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

ssize_t SoftAdapter::query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                     std::size_t most) {
  if (most == 0) return 0;
  entries[0] = {};
  std::memcpy(entries[0].gid.raw, soft(context).station().address().data(),
              sizeof entries[0].gid.raw);
  entries[0].port_num = 1;
  entries[0].gid_type = IBV_GID_TYPE_ROCE_V2;
  return 1;
}

int SoftAdapter::get_async_event(ibv_context* context, ibv_async_event* event) {
  SoftDevice& device = soft(context);
  const SoftDevice::Guard guard(device.lock());
  if (device.events.empty()) {
    take_event(context->async_fd);
    return -1;
  }
  *event = device.events.front();
  device.events.pop_front();
  return 0;
}

// -- memory --------------------------------------------------------------------------------------

ibv_pd* SoftAdapter::alloc_pd(ibv_context* context) {
  const SoftDevice::Guard guard(soft(context).lock());
  ++soft(context).others;
  return new ibv_pd{context, 0};
}

int SoftAdapter::dealloc_pd(ibv_pd* domain) {
  SoftDevice& device = soft(domain->context);
  const SoftDevice::Guard guard(device.lock());
  for (const auto& [key, region] : device.regions) {
    if (region->pd == domain) misused("memory outlives its protection domain");
  }
  --device.others;
  delete domain;
  return 0;
}

ibv_mr* SoftAdapter::reg_mr(ibv_pd* domain, void* data, std::size_t bytes, unsigned access) {
  constexpr unsigned kWrites = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if ((access & kWrites) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    errno = EINVAL;
    return nullptr;
  }
  if (!can_be_pinned(data)) {
    errno = EFAULT;
    return nullptr;
  }
  auto made = std::make_unique<SoftRegion>();
  made->addr = data;
  made->length = bytes;
  made->access = access;
  made->begin = reinterpret_cast<std::uintptr_t>(data);
  made->data = static_cast<std::byte*>(data);
  return add(domain, std::move(made));
}

// The descriptor is a memfd, in which the memory of a CUDA of the process begins at the position of
// the file (tests/support/cuda/cuda_process.h).
ibv_mr* SoftAdapter::reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                                   std::uint64_t iova, int fd, int access) {
  constexpr std::uint64_t kPage = 4096;
  const ::off_t position = ::lseek(fd, 0, SEEK_CUR);
  if (position < 0 || offset % kPage != iova % kPage) {
    errno = EINVAL;
    return nullptr;
  }
  const std::uint64_t before = offset % kPage;
  void* const mapped = ::mmap(nullptr, before + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                              position + static_cast<::off_t>(offset - before));
  if (mapped == MAP_FAILED) return nullptr;
  auto made = std::make_unique<SoftRegion>();
  made->length = bytes;
  made->access = static_cast<unsigned>(access);
  made->begin = iova;
  made->data = static_cast<std::byte*>(mapped) + before;
  made->mapping = Mapping(mapped, before + bytes);
  return add(domain, std::move(made));
}

int SoftAdapter::dereg_mr(ibv_mr* region) {
  SoftDevice& device = soft(region->context);
  const SoftDevice::Guard guard(device.lock());
  if (device.regions.erase(region->rkey) != 1) misused("memory is deregistered twice");
  return 0;
}

// -- completions ---------------------------------------------------------------------------------

ibv_comp_channel* SoftAdapter::create_comp_channel(ibv_context* context) {
  const SoftDevice::Guard guard(soft(context).lock());
  ++soft(context).others;
  auto* made = new SoftChannel();
  made->context = context;
  made->fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return made;
}

int SoftAdapter::destroy_comp_channel(ibv_comp_channel* channel) {
  const SoftDevice::Guard guard(soft(channel->context).lock());
  --soft(channel->context).others;
  ::close(channel->fd);
  delete static_cast<SoftChannel*>(channel);
  return 0;
}

ibv_cq* SoftAdapter::create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) {
  const SoftDevice::Guard guard(soft(context).lock());
  ++soft(context).others;
  auto* made = new SoftQueue();
  made->context = context;
  made->channel = channel;
  made->cqe = entries;
  return made;
}

int SoftAdapter::resize_cq(ibv_cq* queue, int entries) {
  const SoftDevice::Guard guard(soft(queue->context).lock());
  queue->cqe = entries;
  return 0;
}

int SoftAdapter::destroy_cq(ibv_cq* queue) {
  SoftDevice& device = soft(queue->context);
  const SoftDevice::Guard guard(device.lock());
  for (const auto& [number, pair] : device.pairs) {
    if (pair->send_cq == queue || pair->recv_cq == queue) return EBUSY;
  }
  --device.others;
  delete static_cast<SoftQueue*>(queue);
  return 0;
}

int SoftAdapter::get_cq_event(ibv_comp_channel* channel) {
  return take_event(channel->fd);
}

int SoftAdapter::req_notify_cq(ibv_cq* queue) {
  const SoftDevice::Guard guard(soft(queue->context).lock());
  static_cast<SoftQueue&>(*queue).notify = true;
  return 0;
}

int SoftAdapter::poll_cq(ibv_cq* queue, int most, ibv_wc* completions) {
  SoftDevice& device = soft(queue->context);
  const SoftDevice::Guard guard(device.lock());
  auto& entries = static_cast<SoftQueue&>(*queue).entries;
  int count = 0;
  for (; count < most && !entries.empty(); ++count) {
    completions[count] = entries.front();
    entries.pop_front();
    const auto pair = device.pairs.find(completions[count].qp_num);
    const bool is_send = (completions[count].opcode & IBV_WC_RECV) == 0;
    if (is_send && pair != device.pairs.end()) pair->second->polled_send();
  }
  return count;
}

// -- queue pairs ---------------------------------------------------------------------------------

ibv_qp* SoftAdapter::create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  if (attributes->cap.max_inline_data > kMostInline || attributes->qp_type != IBV_QPT_RC) {
    errno = EINVAL;
    return nullptr;
  }
  SoftDevice& device = soft(domain->context);
  const SoftDevice::Guard guard(device.lock());
  const std::uint32_t number = device.next_number++;
  auto& made = device.pairs[number];
  made = std::make_unique<SoftPair>(device, *domain, *attributes, number);
  return made.get();
}

int SoftAdapter::modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  const SoftDevice::Guard guard(soft(pair->context).lock());
  return static_cast<SoftPair&>(*pair).modify(*attributes, mask);
}

int SoftAdapter::destroy_qp(ibv_qp* pair) {
  SoftDevice& device = soft(pair->context);
  const SoftDevice::Guard guard(device.lock());
  if (device.pairs.erase(pair->qp_num) != 1) misused("a queue pair is destroyed twice");
  return 0;
}

int SoftAdapter::post_send(ibv_qp* pair, ibv_send_wr* list, ibv_send_wr** bad) {
  const SoftDevice::Guard guard(soft(pair->context).lock());
  const int error = static_cast<SoftPair&>(*pair).post_send(list);
  if (error != 0) *bad = list;
  return error;
}

int SoftAdapter::post_recv(ibv_qp* pair, ibv_recv_wr* list, ibv_recv_wr** bad) {
  const SoftDevice::Guard guard(soft(pair->context).lock());
  const int error = static_cast<SoftPair&>(*pair).post_receive(list);
  if (error != 0) *bad = list;
  return error;
}

}  // namespace tally::testing
