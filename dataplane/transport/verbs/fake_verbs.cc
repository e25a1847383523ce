#include "dataplane/transport/verbs/fake_verbs.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace tally::transport::verbs {
namespace {

using Guard = std::lock_guard<std::recursive_mutex>;

void ring(int eventfd) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(eventfd, &one, sizeof one));
}

// A fault of the code under test, which a device would answer by doing anything at all.
[[noreturn]] void misused(const std::string& how) {
  throw std::logic_error("fake verbs: " + how);
}

template <typename Objects, typename Handle>
auto& find(Objects& objects, Handle* handle) {
  for (auto& object : objects) {
    if (&object.handle == handle) return object;
  }
  misused("an object that is not there");
}

template <typename Objects, typename Handle>
void drop(Objects& objects, Handle* handle) {
  if (objects.remove_if([handle](auto& object) { return &object.handle == handle; }) != 1) {
    misused("an object is destroyed that is not there");
  }
}

}  // namespace

struct FakeVerbs::DeviceObject {
  ibv_device handle{};
  Setup setup;
};
struct FakeVerbs::ContextObject {
  ibv_context handle{};
  DeviceObject* device = nullptr;
  std::deque<ibv_async_event> events{};
};
struct FakeVerbs::QueueObject {
  ibv_cq handle{};
  std::deque<ibv_wc> completions{};
  bool notify = false;
};
struct FakeVerbs::PairObject {
  ibv_qp handle{};
  std::uint32_t peer = 0;
  ibv_qp_cap room{};
  std::size_t unpolled = 0;  // sends posted and not yet taken from the completion queue
  std::deque<Request> sends{};
  std::deque<ibv_recv_wr> receives{};
  std::deque<ibv_sge> pieces{};  // of the receives
};

FakeVerbs::FakeVerbs(const std::vector<Setup>& devices) {
  for (const Setup& setup : devices) {
    DeviceObject& device = devices_.emplace_back();
    device.setup = setup;
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

bool FakeVerbs::failing(Call call) {
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
  attributes->active_mtu = IBV_MTU_4096;
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
    if (region.first->pd == domain) misused("memory outlives its protection domain");
  }
  --others_;
  delete domain;
  return 0;
}

ibv_mr* FakeVerbs::reg_mr(ibv_pd* domain, void* data, std::size_t bytes, unsigned access) {
  const Guard guard(mutex_);
  if (failing(Call::kRegister)) return nullptr;
  auto* made = new ibv_mr{};
  made->context = domain->context;
  made->pd = domain;
  made->addr = data;
  made->length = bytes;
  made->lkey = made->rkey = next_number_++;
  regions_[made->rkey] = {made, access};
  return made;
}

ibv_mr* FakeVerbs::reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  errno = EOPNOTSUPP;
  return nullptr;
}

int FakeVerbs::dereg_mr(ibv_mr* region) {
  const Guard guard(mutex_);
  if (regions_.erase(region->rkey) != 1) misused("memory is deregistered twice");
  delete region;
  return 0;
}

std::byte* FakeVerbs::memory(ibv_pd* domain, std::uint32_t key, std::uint64_t address,
                             std::size_t bytes, unsigned access) {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return nullptr;
  const auto& [region, allowed] = found->second;
  const auto begin = reinterpret_cast<std::uintptr_t>(region->addr);
  const bool inside = address >= begin && address + bytes <= begin + region->length;
  if (region->pd != domain || !inside || (allowed & access) != access) return nullptr;
  return static_cast<std::byte*>(region->addr) + (address - begin);
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
                         std::uint32_t bytes, bool receive) {
  QueueObject& queue = find(queues_, receive ? pair.handle.recv_cq : pair.handle.send_cq);
  if (queue.completions.size() >= static_cast<std::size_t>(queue.handle.cqe)) {
    misused("a completion queue overruns");
  }
  ibv_wc completion{};
  completion.wr_id = id;
  completion.status = status;
  completion.opcode = receive ? IBV_WC_RECV : IBV_WC_SEND;
  completion.byte_len = bytes;
  completion.qp_num = pair.handle.qp_num;
  queue.completions.push_back(completion);
  if (std::exchange(queue.notify, false)) ring(queue.handle.channel->fd);
}

// -- queue pairs ---------------------------------------------------------------------------------

ibv_qp* FakeVerbs::create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  const Guard guard(mutex_);
  if (failing(Call::kPair)) return nullptr;
  if (attributes->cap.max_inline_data > object(domain->context).device->setup.max_inline) {
    errno = EINVAL;
    return nullptr;
  }
  PairObject& made = pairs_.emplace_back();
  made.handle.context = domain->context;
  made.handle.pd = domain;
  made.handle.send_cq = attributes->send_cq;
  made.handle.recv_cq = attributes->recv_cq;
  made.handle.qp_num = next_number_++;
  made.handle.state = IBV_QPS_RESET;
  made.room = attributes->cap;
  return &made.handle;
}

int FakeVerbs::modify_qp(ibv_qp* handle, ibv_qp_attr* attributes, int mask) {
  const Guard guard(mutex_);
  if (failing(Call::kModify)) return errno;
  PairObject& pair = find(pairs_, handle);
  if ((mask & IBV_QP_DEST_QPN) != 0) pair.peer = attributes->dest_qp_num;
  handle->state = attributes->qp_state;
  if (handle->state == IBV_QPS_ERR) break_off(pair);
  return 0;
}

int FakeVerbs::destroy_qp(ibv_qp* pair) {
  const Guard guard(mutex_);
  drop(pairs_, pair);
  return 0;
}

void FakeVerbs::break_off(PairObject& pair) {
  pair.handle.state = IBV_QPS_ERR;
  for (const Request& send : std::exchange(pair.sends, {})) {
    complete(pair, send.id, IBV_WC_WR_FLUSH_ERR, 0, false);
  }
  pair.pieces.clear();
  for (const ibv_recv_wr& receive : std::exchange(pair.receives, {})) {
    complete(pair, receive.wr_id, IBV_WC_WR_FLUSH_ERR, 0, true);
  }
}

int FakeVerbs::post_send(ibv_qp* handle, ibv_send_wr* list, ibv_send_wr** bad) {
  const Guard guard(mutex_);
  *bad = list;
  if (failing(Call::kPostSend)) return errno;
  PairObject& pair = find(pairs_, handle);
  if (handle->state != IBV_QPS_RTS && handle->state != IBV_QPS_ERR) misused("sent before RTS");
  ++lists_posted_;
  for (ibv_send_wr* one = list; one != nullptr; one = one->next) {
    if (++pair.unpolled > pair.room.max_send_wr) misused("a send queue overruns");
    Request request{one->wr_id, one->opcode, {}, one->wr.rdma.remote_addr, one->wr.rdma.rkey};
    if (one->num_sge > 0) request.piece = one->sg_list[0];
    if ((one->send_flags & IBV_SEND_INLINE) != 0) {
      if (request.piece.length > pair.room.max_inline_data) misused("too long to be inline");
      request.content.resize(request.piece.length);
      if (request.piece.length > 0) {
        std::memcpy(request.content.data(), reinterpret_cast<void*>(request.piece.addr),
                    request.piece.length);
      }
    }
    pair.sends.push_back(std::move(request));
  }
  if (handle->state == IBV_QPS_ERR) {
    break_off(pair);
  } else if (!holding_) {
    work(pair);
  }
  return 0;
}

int FakeVerbs::post_recv(ibv_qp* handle, ibv_recv_wr* list, ibv_recv_wr** bad) {
  const Guard guard(mutex_);
  *bad = list;
  if (failing(Call::kPostReceive)) return errno;
  PairObject& pair = find(pairs_, handle);
  for (ibv_recv_wr* one = list; one != nullptr; one = one->next) {
    if (pair.receives.size() >= pair.room.max_recv_wr) misused("a receive queue overruns");
    pair.receives.push_back(*one);
    pair.receives.back().sg_list = &pair.pieces.emplace_back(one->sg_list[0]);
  }
  if (handle->state == IBV_QPS_ERR) break_off(pair);
  for (PairObject& other : pairs_) {
    if (other.peer == handle->qp_num && !holding_) work(other);
  }
  return 0;
}

void FakeVerbs::work(PairObject& pair) {
  while (!pair.sends.empty() && pair.handle.state == IBV_QPS_RTS) {
    ibv_wc_status status = IBV_WC_SUCCESS;
    if (!carry_out(pair, pair.sends.front(), status)) return;
    const Request request = std::move(pair.sends.front());
    pair.sends.pop_front();
    complete(pair, request.id, status, request.piece.length, false);
    if (status != IBV_WC_SUCCESS) break_off(pair);
  }
}

// False: not yet, the receiver has no buffer.
bool FakeVerbs::carry_out(PairObject& pair, const Request& request, ibv_wc_status& status) {
  const auto device = [this](const PairObject& one) {
    return object(one.handle.context).device->setup.name;
  };
  const auto to = std::find_if(pairs_.begin(), pairs_.end(), [&](const PairObject& other) {
    return other.handle.qp_num == pair.peer && other.peer == pair.handle.qp_num &&
           other.handle.state != IBV_QPS_ERR;
  });
  if (to == pairs_.end() || cut_.contains(device(pair)) || cut_.contains(device(*to))) {
    status = IBV_WC_RETRY_EXC_ERR;
    return true;
  }
  const std::size_t bytes = request.piece.length;
  if (request.opcode == IBV_WR_SEND) return deliver(pair, *to, request);
  const bool read = request.opcode == IBV_WR_RDMA_READ;
  std::byte* local = memory(pair.handle.pd, request.piece.lkey, request.piece.addr, bytes,
                            read ? IBV_ACCESS_LOCAL_WRITE : 0);
  if (local == nullptr) misused("a request's own memory is not registered");
  std::byte* remote = memory(to->handle.pd, request.key, request.remote, bytes,
                             read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
  if (remote == nullptr) {
    status = IBV_WC_REM_ACCESS_ERR;
    return true;
  }
  std::memcpy(read ? local : remote, read ? remote : local, bytes);
  return true;
}

bool FakeVerbs::deliver(PairObject& from, PairObject& to, const Request& request) {
  if (to.receives.empty()) return false;
  const ibv_recv_wr receive = to.receives.front();
  const ibv_sge piece = *receive.sg_list;
  to.receives.pop_front();
  to.pieces.pop_front();
  const std::size_t bytes = request.piece.length;
  if (bytes > piece.length) misused("a message is longer than what it is received in");
  std::byte* target = memory(to.handle.pd, piece.lkey, piece.addr, bytes, IBV_ACCESS_LOCAL_WRITE);
  const std::byte* source = request.content.empty() ? memory(from.handle.pd, request.piece.lkey,
                                                             request.piece.addr, bytes, 0)
                                                    : request.content.data();
  if (bytes > 0 && (target == nullptr || source == nullptr)) misused("a message's own memory");
  if (bytes > 0) std::memcpy(target, source, bytes);
  complete(to, receive.wr_id, IBV_WC_SUCCESS, static_cast<std::uint32_t>(bytes), true);
  return true;
}

}  // namespace tally::transport::verbs
