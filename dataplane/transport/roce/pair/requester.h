// The sending half of a queue pair: turns SENDs, WRITEs and READs into packets, and answers into
// completions.
//
// Losses are repaired in two ways:
// - When a packet of a request is lost, the requester sends that packet and all later ones again
//   (go-back-N), as the standard says.
// - When packets of an answer to a READ are lost, the requester keeps what has arrived and sends a
//   new READ, at the next PSN, for the missing part. If nothing of the answer has arrived, the
//   request itself may be lost, so the requester sends the same request again.
// The other end's answers and later packets tell of losses. Where none come, the requester probes
// (answer_clock.h), and at last does both repairs after a timeout.
//
// Sources: InfiniBand Architecture Specification 1.4, volume 1, section 9.7 (reliable service).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/containers/fifo.h"
#include "dataplane/transport/roce/pair/answer_clock.h"
#include "dataplane/transport/roce/pair/failure.h"
#include "dataplane/transport/roce/pair/pair.h"
#include "dataplane/transport/roce/pair/request_queue.h"
#include "dataplane/transport/roce/pair/syndrome.h"

namespace tally::transport::roce {

struct Done {
  std::uint64_t id = 0;
  bool fine = false;  // false: Requester::failure() says why
};

// A READ's bytes: the payload of the packet goes to this offset of the work.
struct Arrived {
  std::uint64_t id = 0;
  std::uint64_t offset = 0;
};

struct RequesterCounters {
  std::uint64_t packets = 0;         // sent
  std::uint64_t again = 0;           // of them: sent before
  std::uint64_t reads_repaired = 0;  // READs for what was missing of another
  std::uint64_t got_through = 0;     // that the other end has, and packets of its answers
  std::uint64_t timeouts = 0;
  std::uint64_t ignored = 0;  // answers that fit nothing that was sent
};

class Requester {
 public:
  // Works that are posted and not completed, and their requests. Where the other end lets parts of
  // READs arrive, repairs make up to 512 requests of them.
  static constexpr std::size_t kMostRequests = 128;

  explicit Requester(const PairOptions& options);

  // How much work fits. Long READs take room for each of their requests.
  std::size_t room() const {
    const std::size_t requests = requests_.size() + long_reads_.size();
    return kMostRequests - std::min(kMostRequests, std::max(requests, works_.size()));
  }
  std::size_t room_for(const Work& work) const;
  // Precondition: room_for(work) is at most room(), and failure() is kNone.
  void post(const Work& work);

  // The most packets that may be on their way, of requests and of answers to READs.
  struct Windows {
    std::uint32_t all = 256;
    std::uint32_t reads = 256;  // before another READ is sent
    bool long_reads = true;     // READs of more than kFewPackets may begin
  };
  void set_windows(const Windows& windows) { windows_ = windows; }
  void set_window(std::uint32_t packets) { windows_ = {.all = packets, .reads = packets}; }
  // Long READs that have begun and are not complete, and those that have not begun. The latter do
  // not keep other work waiting.
  std::uint32_t long_reads_outstanding() const { return long_reads_outstanding_; }
  std::size_t long_reads_waiting() const { return long_reads_.size(); }

  // Takes an acknowledgement or an answer to a READ, whose source is the other end. Returns where
  // the payload of a READ's answer belongs. Nothing for other packets, and for those that came
  // before or fit nothing that was sent; the caller then drops the payload.
  std::optional<Arrived> receive(const Packet& packet, Nanos now);

  // Gives the next packet to send. False: there is none now.
  bool next(Outgoing& packet, Nanos now);
  // Gives the next completion. READs complete in any order, other work in the order of its posts.
  bool next_done(Done& done);

  // Does what is due at this time. The caller calls it at timer() at the latest; never: kNever.
  void tick(Nanos now);
  Nanos timer() const;
  static constexpr Nanos kNever = INT64_MAX;

  Failure failure() const { return failure_; }
  const RequesterCounters& counters() const { return counters_; }

 private:
  struct Posted {
    Work work;
    std::uint32_t open = 0;  // requests that are not done
  };

  // A part of a work that is a long READ.
  struct LongRead {
    std::uint64_t serial = 0;
    std::uint64_t offset = 0;
  };

  Posted& posted(const Request& request) { return works_[request.serial - first_serial_]; }
  Psn lowest() const;
  std::uint32_t on_the_way() const { return static_cast<std::uint32_t>(sent_end_.after(lowest())); }
  bool is_outstanding() const { return sent_end_ != lowest(); }
  // -- sending
  bool next_again(Outgoing& packet);
  bool next_probe(Outgoing& packet);
  void count_again();
  bool may_send(const Request& request) const;
  std::uint32_t most_read() const;
  void cut(Request& read);
  void begin_long_read();
  // -- receiving
  std::optional<Arrived> on_read_answer(const Packet& packet, Nanos now);
  void on_acknowledgement(const Packet& packet, Nanos now);
  void on_refusal(Psn psn, Refusal refusal, Nanos now);
  void on_not_ready(Psn psn, std::uint8_t timer, Nanos now);
  void take_credits(const Aeth& aeth);
  // The responder has all packets before this one.
  void acknowledge_before(Psn psn, Nanos now);
  // Answers up to this PSN, exclusive, have come.
  void on_progress(Psn end, Nanos now);
  // -- repairs
  void look_for_overtaken(Nanos now);
  void repair(std::size_t index);
  void probe();
  void on_timeout();
  // -- ends
  void finish(Request& request);
  void drop_done();
  void fail(Failure failure);

  PairOptions options_;
  RequestQueue requests_;
  Fifo<LongRead> long_reads_;                 // that have not begun
  std::uint32_t long_reads_outstanding_ = 0;  // requests in requests_ that are not done
  Fifo<Posted> works_;                        // by serial minus first_serial_
  std::uint64_t first_serial_ = 0;
  Fifo<Done> dones_;
  Psn sent_end_;          // after the last PSN that was sent
  Psn acknowledged_end_;  // before it, the responder has all request packets
  Psn seen_end_;          // after the last PSN of which an answer has arrived
  Psn asked_end_;         // after the last PSN that asks for an answer
  Windows windows_;
  std::uint32_t agains_ = 0;                  // requests with `again`
  bool probes_ = false;                       // the last packet is to be sent again
  std::uint64_t message_limit_ = UINT64_MAX;  // by the other end's credits
  AnswerClock clock_;
  Nanos went_back_ = 0;
  Nanos wait_until_ = 0;  // because the other end was not ready
  std::uint32_t not_ready_in_a_row_ = 0;
  Failure failure_ = Failure::kNone;
  RequesterCounters counters_;
};

}  // namespace tally::transport::roce
