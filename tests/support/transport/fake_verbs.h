// RDMA devices inside this process, for tests. They move bytes between queue pairs and check
// requests as real devices do. They fail when a test tells them to. They throw std::logic_error
// when the code under test misuses them. Any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "dataplane/transport/verbs/api.h"

namespace tally::transport::verbs {

// The calls that a test can make fail or wait.
enum class Call {
  kOpen,
  kProtectionDomain,
  kRegister,
  kChannel,
  kQueue,
  kResize,
  kPair,
  kModify,
  kDestroyPair,
  kPostSend,
  kPostReceive
};

struct FakeGid {
  ibv_gid gid{};
  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
};

struct FakeDevice {
  std::string name = "fake0";
  std::vector<FakeGid> gids;  // by index; when empty, the device has "10.0.0.1" of RoCE v2
  ibv_port_state state = IBV_PORT_ACTIVE;
  std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  int max_reads = 16;
  ibv_mtu mtu = IBV_MTU_4096;
  std::uint32_t max_inline = 256;
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  bool dmabufs = false;  // can import dma-bufs; it takes any descriptor that can be mapped
};

class FakeVerbs final : public Api {
 public:
  using Gid = FakeGid;
  using Setup = FakeDevice;
  explicit FakeVerbs(const std::vector<FakeDevice>& devices = {FakeDevice{}});
  ~FakeVerbs() override;

  // The GID of the IPv4 address 10.0.0.last.
  static Gid ipv4(std::uint8_t last, ibv_gid_type type = IBV_GID_TYPE_ROCE_V2);

  // -- what tests do to it -----------------------------------------------------------------------
  // Makes calls of this kind fail. error: their errno. after: number of calls that succeed first.
  // times: number of calls that fail.
  void fail(Call call, int error, int after = 0, int times = 1);
  // The next so many calls of this kind wait until go_on(), at most 20 s, as on a slow device.
  // Calls of other kinds go on.
  void stall(Call call, int times = 1);
  void go_on();
  std::size_t stalled() const;  // number of calls that wait now
  // From now on the network loses every packet to or from this device.
  void cut(const std::string& device);
  // From now on the network loses every packet that carries more than this.
  void pass_at_most(std::uint32_t bytes);
  // From now on posted sends wait until let_go().
  void hold();
  void let_go();
  // Queue pairs whose peer has no buffer give up: the first send that waits fails with
  // IBV_WC_RNR_RETRY_EXC_ERR, and the queue pair goes into error.
  void exhaust_retries();
  // What devices of this name let peers do, by queue pairs and by memory: IBV_ACCESS_REMOTE_*.
  unsigned remote_access(const std::string& device);
  // Gives an asynchronous event to every open context, or only to the context of the queue pair.
  void announce(ibv_event_type type, ibv_qp* pair = nullptr);
  // The number of sends with this opcode that wait in all queue pairs.
  std::size_t held(ibv_wr_opcode opcode) const;
  // The number of objects that have not been released.
  std::size_t objects() const;
  // The queue pair that is connected to the one with this number; null when there is none.
  ibv_qp* peer_of(std::uint32_t number);
  std::size_t lists_posted() const { return lists_posted_; }  // number of post_send() calls
  // The timeout that modify_qp() set last.
  std::uint8_t last_ack_timeout() const { return last_ack_timeout_; }

  // -- Api ---------------------------------------------------------------------------------------
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
  struct DeviceObject;
  struct ContextObject;
  struct QueueObject;
  struct PairObject;
  // A posted send.
  struct Request {
    std::uint64_t id;  // wr_id
    ibv_wr_opcode opcode;
    ibv_sge piece;
    std::uint64_t remote;
    std::uint32_t key;
    std::vector<std::byte> content{};  // the bytes of an inline send
  };

  void wait_if_slow(Call call);
  // Registered memory.
  struct Registered {
    ibv_mr* handle;
    unsigned access;
    std::uint64_t begin;  // the address of its first byte in requests
    std::byte* data;
    bool mapped = false;  // data is a mapping of a dma-buf, which dereg_mr() unmaps
  };

  bool failing(Call call);
  ibv_mr* add(ibv_pd* domain, void* address, std::size_t bytes, const Registered& registered);
  ContextObject& object(ibv_context* context);
  static void check_timeout(const ibv_qp_attr& attributes, int mask);
  void check_reads(const PairObject& pair, const ibv_qp_attr& attributes, int mask);
  void work(PairObject& pair);
  bool carry_out(PairObject& pair, const Request& request, ibv_wc_status& status);
  bool deliver(PairObject& from, PairObject& to, const Request& request);
  std::byte* memory(ibv_pd* domain, std::uint32_t key, std::uint64_t address, std::size_t bytes,
                    unsigned access);
  void complete(PairObject& pair, std::uint64_t id, ibv_wc_status status, std::uint32_t bytes,
                bool receive, bool immediate = false);
  void break_off(PairObject& pair);

  mutable std::recursive_mutex mutex_;
  std::list<DeviceObject> devices_;
  std::list<ContextObject> contexts_;
  std::list<QueueObject> queues_;
  std::list<PairObject> pairs_;
  std::map<std::uint32_t, Registered> regions_;  // by key
  std::uint8_t last_ack_timeout_ = 0;
  std::size_t others_ = 0;  // number of protection domains and completion channels
  std::uint32_t next_number_ = 17;
  struct Failure {
    int after = 0;
    int times = 0;
    int error = 0;
  };
  std::map<Call, Failure> failures_;
  std::map<Call, int> slow_;  // how many more calls wait
  std::size_t stalled_ = 0;
  std::size_t times_gone_on_ = 0;  // number of go_on() calls
  std::condition_variable_any gone_on_;
  std::set<std::string> cut_;
  std::uint32_t most_passed_ = UINT32_MAX;
  bool holding_ = false;
  std::size_t lists_posted_ = 0;
};

}  // namespace tally::transport::verbs
