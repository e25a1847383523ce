// A queue pair of SoftAdapter: the two halves of the transport roce, and the work that is posted to
// them. The caller holds the lock of the device.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "dataplane/transport/roce/pair/requester.h"
#include "dataplane/transport/roce/pair/responder.h"
#include "dataplane/transport/verbs/api.h"
#include "tests/support/roce/cable.h"

namespace tally::testing {

class SoftDevice;

class SoftPair final : public ibv_qp, public transport::roce::ReachableMemory {
 public:
  SoftPair(SoftDevice& device, ibv_pd& domain, const ibv_qp_init_attr& attributes,
           std::uint32_t number);

  // As the functions of Api.
  int modify(const ibv_qp_attr& attributes, int mask);
  int post_send(const ibv_send_wr* list);
  int post_receive(const ibv_recv_wr* list);
  // The caller has taken a completion of a send.
  void polled_send() { --unpolled_; }

  // Takes a packet from the cable.
  void take(Station::Arrived arrived, Nanos now);
  // Does what is due, and sends what can be sent.
  void progress(Nanos now);
  Nanos timer() const;

  // The memory that the other end may reach.
  std::byte* find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                  transport::roce::Right right) const override;

 private:
  struct Send {
    std::uint64_t id = 0;  // of the caller
    transport::roce::Work work{};
    FrameBytes content{};         // of an inline send
    std::byte* target = nullptr;  // of a READ
    bool is_done = false;
    bool is_fine = false;
  };
  struct Receive {
    std::uint64_t id = 0;
    std::vector<ibv_sge> pieces{};
  };

  void connect(const ibv_qp_attr& attributes);
  bool is_ready_to_receive() const { return state == IBV_QPS_RTR || state == IBV_QPS_RTS; }
  void take_answer(const Station::Arrived& arrived, Nanos now);
  void deliver();
  void take_message(const transport::roce::Delivery& part, std::span<const std::byte> payload);
  void pump(Nanos now);
  void emit(const transport::roce::Outgoing& outgoing);
  void post_waiting();
  void take_done();
  void complete_send(const Send& send, ibv_wc_status status);
  void complete_receive(const Receive& receive, ibv_wc_status status,
                        const std::optional<std::uint32_t>& immediate, ibv_wc_opcode opcode);
  void break_off();
  std::byte* own_memory(const ibv_sge& piece, unsigned access) const;

  SoftDevice& device_;
  ibv_qp_cap room_{};
  bool signals_all_ = false;
  unsigned access_ = 0;  // of the peer: IBV_ACCESS_REMOTE_*
  transport::roce::IpAddress peer_{};
  transport::roce::Route route_{};
  std::uint32_t peer_number_ = 0;
  transport::roce::PairOptions options_;
  std::optional<transport::roce::Requester> requester_;
  std::optional<transport::roce::Responder> responder_;
  std::deque<Send> sends_;  // by number, from first_send_ on
  std::uint64_t first_send_ = 0;
  std::size_t given_ = 0;  // of sends_: the requester has them
  std::size_t unpolled_ = 0;
  std::deque<Receive> receives_;
  std::uint32_t received_ = 0;                          // bytes of the message that is arriving
  std::map<std::uint64_t, Station::Arrived> payloads_;  // that the responder keeps, by handle
  std::uint64_t last_handle_ = 0;
  std::optional<transport::roce::Psn> answered_end_;  // after the last READ response that was sent
};

}  // namespace tally::testing
