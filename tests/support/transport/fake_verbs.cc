#include "tests/support/transport/fake_objects.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace tally::transport::verbs {
namespace {

constexpr std::chrono::seconds kLongestStall(20);

void ring(int eventfd) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(eventfd, &one, sizeof one));
}

}  // namespace

FakeVerbs::FakeVerbs(const std::vector<Setup>& devices) {
  for (const Setup& setup : devices) {
    DeviceObject& device = devices_.emplace_back();
    device.setup = setup;
    device.handle.transport_type = setup.transport;
    if (device.setup.gids.empty()) device.setup.gids.push_back(ipv4(1));
  }
}

FakeVerbs::~FakeVerbs() = default;

FakeVerbs::Gid FakeVerbs::ipv4(std::uint8_t last, ibv_gid_type type) {
  Gid made;
  made.type = type;
  made.gid.raw[10] = made.gid.raw[11] = 0xff;
  made.gid.raw[12] = 10;
  made.gid.raw[15] = last;
  return made;
}

// -- what tests do to it -------------------------------------------------------------------------

void FakeVerbs::fail(Call call, int error, int after, int times) {
  const Guard guard(mutex_);
  failures_[call] = {after, times, error};
}

void FakeVerbs::stall(Call call, int times) {
  const Guard guard(mutex_);
  slow_[call] = times;
}

void FakeVerbs::go_on() {
  const Guard guard(mutex_);
  slow_.clear();
  ++times_gone_on_;
  gone_on_.notify_all();
}

std::size_t FakeVerbs::stalled() const {
  const Guard guard(mutex_);
  return stalled_;
}

// With the lock, which is given up for as long.
void FakeVerbs::wait_if_slow(Call call) {
  const auto found = slow_.find(call);
  if (found == slow_.end() || found->second == 0) return;
  --found->second;
  ++stalled_;
  gone_on_.wait_for(mutex_, kLongestStall,
                    [this, before = times_gone_on_] { return times_gone_on_ != before; });
  --stalled_;
}

bool FakeVerbs::failing(Call call) {
  wait_if_slow(call);
  const auto found = failures_.find(call);
  if (found == failures_.end() || found->second.after-- > 0) return false;
  errno = found->second.error;
  if (--found->second.times == 0) failures_.erase(found);
  return true;
}

void FakeVerbs::cut(const std::string& device) {
  const Guard guard(mutex_);
  cut_.insert(device);
}

void FakeVerbs::pass_at_most(std::uint32_t bytes) {
  const Guard guard(mutex_);
  most_passed_ = bytes;
}

void FakeVerbs::hold() {
  const Guard guard(mutex_);
  holding_ = true;
}

void FakeVerbs::let_go() {
  const Guard guard(mutex_);
  holding_ = false;
  for (PairObject& pair : pairs_) work(pair);
}

void FakeVerbs::announce(ibv_event_type type, ibv_qp* pair) {
  const Guard guard(mutex_);
  for (ContextObject& context : contexts_) {
    if (pair != nullptr && pair->context != &context.handle) continue;
    ibv_async_event event{};
    event.event_type = type;
    event.element.qp = pair;
    context.events.push_back(event);
    ring(context.handle.async_fd);
  }
}

std::size_t FakeVerbs::held(ibv_wr_opcode opcode) const {
  const Guard guard(mutex_);
  std::size_t count = 0;
  for (const PairObject& pair : pairs_) {
    count += static_cast<std::size_t>(
        std::count_if(pair.sends.begin(), pair.sends.end(),
                      [opcode](const Request& request) { return request.opcode == opcode; }));
  }
  return count;
}

ibv_qp* FakeVerbs::peer_of(std::uint32_t number) {
  const Guard guard(mutex_);
  for (PairObject& pair : pairs_) {
    if (pair.peer == number) return &pair.handle;
  }
  return nullptr;
}

unsigned FakeVerbs::remote_access(const std::string& device) {
  const Guard guard(mutex_);
  constexpr unsigned kRemote =
      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  unsigned access = 0;
  const auto meant = [&](ibv_context* context) {
    return object(context).device->setup.name == device;
  };
  for (const PairObject& pair : pairs_) access |= meant(pair.handle.context) ? pair.access : 0;
  for (const auto& [key, region] : regions_) {
    access |= meant(region.handle->context) ? region.access : 0;
  }
  return access & kRemote;
}

std::size_t FakeVerbs::objects() const {
  const Guard guard(mutex_);
  return contexts_.size() + queues_.size() + pairs_.size() + regions_.size() + others_;
}

// -- devices -------------------------------------------------------------------------------------

ibv_device** FakeVerbs::get_device_list(int* count) {
  const Guard guard(mutex_);
  auto** list = new ibv_device*[devices_.size() + 1];
  *count = 0;
  for (DeviceObject& device : devices_) list[(*count)++] = &device.handle;
  list[*count] = nullptr;
  return list;
}

void FakeVerbs::free_device_list(ibv_device** list) {
  delete[] list;
}

const char* FakeVerbs::get_device_name(ibv_device* device) {
  return find(devices_, device).setup.name.c_str();
}

FakeVerbs::ContextObject& FakeVerbs::object(ibv_context* context) {
  return find(contexts_, context);
}

ibv_context* FakeVerbs::open_device(ibv_device* device) {
  const Guard guard(mutex_);
  if (failing(Call::kOpen)) return nullptr;
  ContextObject& made = contexts_.emplace_back();
  made.device = &find(devices_, device);
  made.handle.device = device;
  made.handle.async_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return &made.handle;
}

int FakeVerbs::close_device(ibv_context* context) {
  const Guard guard(mutex_);
  ::close(context->async_fd);
  drop(contexts_, context);
  return 0;
}

int FakeVerbs::query_device(ibv_context* context, ibv_device_attr* attributes) {
  const Guard guard(mutex_);
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom =
      object(context).device->setup.max_reads;
  attributes->max_qp_wr = 4096;
  attributes->max_cqe = 1 << 20;
  return 0;
}

int FakeVerbs::query_port(ibv_context* context, std::uint8_t, ibv_port_attr* attributes) {
  const Guard guard(mutex_);
  const Setup& setup = object(context).device->setup;
  *attributes = {};
  attributes->state = setup.state;
  attributes->active_mtu = setup.mtu;
  attributes->link_layer = setup.link_layer;
  return 0;
}

ssize_t FakeVerbs::query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most) {
  const Guard guard(mutex_);
  const auto& gids = object(context).device->setup.gids;
  const std::size_t count = std::min(most, gids.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    entries[i] = {};
    entries[i].gid = gids[i].gid;
    entries[i].gid_index = i;
    entries[i].port_num = 1;
    entries[i].gid_type = gids[i].type;
  }
  return static_cast<ssize_t>(count);
}

int FakeVerbs::get_async_event(ibv_context* context, ibv_async_event* event) {
  const Guard guard(mutex_);
  auto& events = object(context).events;
  if (events.empty()) {
    std::uint64_t count = 0;
    static_cast<void>(!::read(context->async_fd, &count, sizeof count));
    return -1;
  }
  *event = events.front();
  events.pop_front();
  return 0;
}

// -- memory --------------------------------------------------------------------------------------

ibv_pd* FakeVerbs::alloc_pd(ibv_context* context) {
  const Guard guard(mutex_);
  if (failing(Call::kProtectionDomain)) return nullptr;
  ++others_;
  return new ibv_pd{context, 0};
}

int FakeVerbs::dealloc_pd(ibv_pd* domain) {
  const Guard guard(mutex_);
  for (const auto& [key, region] : regions_) {
    if (region.handle->pd == domain) misused("memory outlives its protection domain");
  }
  --others_;
  delete domain;
  return 0;
}

ibv_mr* FakeVerbs::reg_mr(ibv_pd* domain, void* data, std::size_t bytes, unsigned access) {
  const Guard guard(mutex_);
  if (failing(Call::kRegister)) return nullptr;
  return add(
      domain, data, bytes,
      {nullptr, access, reinterpret_cast<std::uintptr_t>(data), static_cast<std::byte*>(data)});
}

ibv_mr* FakeVerbs::add(ibv_pd* domain, void* address, std::size_t bytes,
                       const Registered& registered) {
  auto* made = new ibv_mr{};
  made->context = domain->context;
  made->pd = domain;
  made->addr = address;
  made->length = bytes;
  made->lkey = made->rkey = next_number_++;
  regions_[made->rkey] = registered;
  regions_[made->rkey].handle = made;
  return made;
}

ibv_mr* FakeVerbs::reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                                 std::uint64_t iova, int fd, int access) {
  constexpr std::uint64_t kPage = 4096;
  const Guard guard(mutex_);
  if (!object(domain->context).device->setup.dmabufs) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (offset % kPage != iova % kPage) {
    errno = EINVAL;
    return nullptr;
  }
  if (failing(Call::kRegister)) return nullptr;
  const std::uint64_t before = offset % kPage;
  void* mapped = ::mmap(nullptr, before + std::max<std::size_t>(bytes, 1), PROT_READ | PROT_WRITE,
                        MAP_SHARED, fd, static_cast<off_t>(offset - before));
  if (mapped == MAP_FAILED) return nullptr;  // EBADF, for one
  // As libibverbs fills it in: nothing tells the address by which it is reached.
  return add(domain, reinterpret_cast<void*>(offset), bytes,
             {nullptr, static_cast<unsigned>(access), iova,
              static_cast<std::byte*>(mapped) + before, true});
}

int FakeVerbs::dereg_mr(ibv_mr* region) {
  const Guard guard(mutex_);
  const auto found = regions_.find(region->rkey);
  if (found == regions_.end()) misused("memory is deregistered twice");
  const Registered& registered = found->second;
  const std::uint64_t before = registered.begin % 4096;
  if (registered.mapped) ::munmap(registered.data - before, before + region->length);
  regions_.erase(found);
  delete region;
  return 0;
}

std::byte* FakeVerbs::memory(ibv_pd* domain, std::uint32_t key, std::uint64_t address,
                             std::size_t bytes, unsigned access) {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return nullptr;
  const Registered& region = found->second;
  const ibv_mr& handle = *region.handle;
  const bool inside = address >= region.begin && address + bytes <= region.begin + handle.length;
  if (handle.pd != domain || !inside || (region.access & access) != access) return nullptr;
  return region.data + (address - region.begin);
}

// -- completions ---------------------------------------------------------------------------------

ibv_comp_channel* FakeVerbs::create_comp_channel(ibv_context* context) {
  const Guard guard(mutex_);
  if (failing(Call::kChannel)) return nullptr;
  ++others_;
  return new ibv_comp_channel{context, ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), 0};
}

int FakeVerbs::destroy_comp_channel(ibv_comp_channel* channel) {
  const Guard guard(mutex_);
  --others_;
  ::close(channel->fd);
  delete channel;
  return 0;
}

ibv_cq* FakeVerbs::create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) {
  const Guard guard(mutex_);
  if (failing(Call::kQueue)) return nullptr;
  QueueObject& made = queues_.emplace_back();
  made.handle.context = context;
  made.handle.channel = channel;
  made.handle.cqe = entries;
  return &made.handle;
}

int FakeVerbs::resize_cq(ibv_cq* queue, int entries) {
  const Guard guard(mutex_);
  if (failing(Call::kResize)) return errno;
  queue->cqe = entries;
  return 0;
}

int FakeVerbs::destroy_cq(ibv_cq* queue) {
  const Guard guard(mutex_);
  drop(queues_, queue);
  return 0;
}

int FakeVerbs::get_cq_event(ibv_comp_channel* channel) {
  std::uint64_t count = 0;
  return ::read(channel->fd, &count, sizeof count) == sizeof count ? 0 : -1;
}

int FakeVerbs::req_notify_cq(ibv_cq* queue) {
  const Guard guard(mutex_);
  find(queues_, queue).notify = true;
  return 0;
}

int FakeVerbs::poll_cq(ibv_cq* queue, int most, ibv_wc* completions) {
  const Guard guard(mutex_);
  auto& there = find(queues_, queue).completions;
  int count = 0;
  for (; count < most && !there.empty(); ++count) {
    completions[count] = there.front();
    there.pop_front();
    for (PairObject& pair : pairs_) {
      const bool send = completions[count].opcode != IBV_WC_RECV;
      if (send && pair.handle.qp_num == completions[count].qp_num) --pair.unpolled;
    }
  }
  return count;
}

void FakeVerbs::complete(PairObject& pair, std::uint64_t id, ibv_wc_status status,
                         std::uint32_t bytes, bool receive, bool immediate) {
  QueueObject& queue = find(queues_, receive ? pair.handle.recv_cq : pair.handle.send_cq);
  if (queue.completions.size() >= static_cast<std::size_t>(queue.handle.cqe)) {
    misused("a completion queue overruns");
  }
  ibv_wc completion{};
  completion.wr_id = id;
  completion.status = status;
  completion.opcode = receive ? IBV_WC_RECV : IBV_WC_SEND;
  completion.byte_len = bytes;
  if (immediate) completion.wc_flags = IBV_WC_WITH_IMM;
  completion.qp_num = pair.handle.qp_num;
  queue.completions.push_back(completion);
  if (std::exchange(queue.notify, false)) ring(queue.handle.channel->fd);
}

}  // namespace tally::transport::verbs
