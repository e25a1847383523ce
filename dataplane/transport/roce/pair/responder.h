// The receiving half of a queue pair: takes the other end's SENDs, WRITEs and READs, and answers.
//
// Requests are executed in the order of their PSNs, and each once. A few packets that come before
// an earlier one are kept, so that a network may reorder them; when the earlier one does not come
// soon, the requester is asked to go back to it. Requests that come again are acknowledged, and
// READs among them are answered again from what this end knows of them.
//
// Nothing that a peer sends makes it touch memory that ReachableMemory does not give; each packet
// asks anew, because memory may be withdrawn in the middle of a message.
//
// Sources: InfiniBand Architecture Specification 1.4, volume 1, section 9.7 (reliable service).
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/containers/fifo.h"
#include "dataplane/transport/roce/pair/pair.h"
#include "dataplane/transport/roce/pair/syndrome.h"

namespace tally::transport::roce {

enum class Right : std::uint8_t { kRead, kWrite };

// The memory that the other end may reach.
class ReachableMemory {
 public:
  virtual ~ReachableMemory() = default;
  // The bytes at this address of the region with this key; null when the other end has no such
  // right to all of them.
  virtual std::byte* find(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                          Right right) const = 0;
};

// What the caller has to do with a payload.
struct Delivery {
  std::uint64_t handle = 0;     // of the payload; the caller drops it afterwards
  bool is_message = false;      // a part of a SEND's message; otherwise of a WRITE
  std::byte* target = nullptr;  // of a WRITE: the payload goes here
  std::uint32_t bytes = 0;
  bool begins = false;                       // of a message: takes one of the receives
  bool ends = false;                         // the last part
  std::optional<std::uint32_t> immediate{};  // with a WRITE: takes one of the receives
};

struct ResponderCounters {
  std::uint64_t packets = 0;     // requests that were executed
  std::uint64_t duplicates = 0;  // requests that came again
  std::uint64_t early = 0;       // came before an earlier one
  std::uint64_t ignored = 0;     // outside of the window, or after a failure
  std::uint64_t asked_again = 0;
  std::uint64_t not_ready = 0;
};

class Responder {
 public:
  static constexpr std::int32_t kMostEarly = 32;        // packets that are kept
  static constexpr std::int32_t kDuplicates = 1 << 16;  // PSNs behind that count as sent again

  // memory is borrowed for the life of the responder.
  Responder(const PairOptions& options, const ReachableMemory& memory);

  // So many more messages can be taken.
  void post_receives(std::uint32_t count) { receives_ += count; }

  // Takes a request, whose source is the other end. handle: the caller's name for its payload.
  // False: the payload is not needed, and the caller drops it. True: a Delivery will have it.
  bool receive(const Packet& packet, std::uint64_t handle, Nanos now);
  // Whether an earlier packet has not come yet, so that receive() may keep this one.
  bool is_early(const Packet& packet) const { return packet.psn.after(expected_) > 0; }
  // The caller takes all of them after each receive(); so there are kMostEarly + 1 at most.
  bool next_delivery(Delivery& delivery);
  // Gives the next packet to send: acknowledgements, and answers to READs. False: there is none.
  // At most 4 * reads_in + 1 answers wait, also where the caller never calls it.
  bool next(Outgoing& packet);
  bool has_answers() const { return !replies_.empty(); }

  void tick(Nanos now);
  Nanos timer() const;

  // The other end has broken the protocol or asked for what it may not have. It was told so, and
  // nothing more is executed.
  bool has_failed() const { return failed_; }
  const ResponderCounters& counters() const { return counters_; }
  // Visits the handles of the payloads that it keeps.
  template <typename Visit>
  void for_each_kept(Visit visit) const {
    for (std::size_t i = 0; i < early_.size(); ++i) {
      if (early_[i].has_handle) visit(early_[i].handle);
    }
    for (std::size_t i = 0; i < deliveries_.size(); ++i) visit(deliveries_[i].handle);
  }

 private:
  struct Early {
    Packet packet{};
    std::uint64_t handle = 0;
    bool has_handle = false;
    Psn psn() const { return packet.psn; }
  };
  // A READ that is being answered, or was.
  struct Read {
    Psn first{};
    std::uint32_t packets = 0;
    Reth source{};
    std::uint32_t next = 0;
    bool is_again = false;  // the request came again
  };
  // An answer to send: packets of a READ, or an acknowledgement.
  struct Reply {
    std::optional<Read> read{};
    Psn psn{};
    std::uint8_t syndrome = 0;
    std::uint32_t messages = 0;
  };
  enum class Current : std::uint8_t { kNothing, kSend, kWrite };

  bool receive_early(const Packet& packet, std::uint64_t handle, std::int32_t ahead, Nanos now);
  bool has_early(Psn psn) const;
  void receive_again(const Packet& packet);
  bool was_read(const Packet& packet) const;
  bool execute(const Packet& packet, std::uint64_t handle);
  bool execute_send(const Packet& packet, std::uint64_t handle, const OpcodeFacts& facts);
  bool execute_write(const Packet& packet, std::uint64_t handle, const OpcodeFacts& facts);
  void execute_read(const Packet& packet);
  bool fits(const Packet& packet, const OpcodeFacts& facts) const;
  bool not_ready(const Packet& packet);
  void executed(const Packet& packet, bool ends);
  void take_early(Nanos now);
  void answer(Psn psn, std::uint8_t syndrome);
  void acknowledge(Psn psn) { answer(psn, credit_code(receives_)); }
  void refuse(Psn psn, Refusal refusal);
  void ask_again();
  bool next_of_read(Reply& reply, Outgoing& packet);
  void end_read(const Read& read);

  PairOptions options_;
  const ReachableMemory& memory_;
  Psn expected_;
  std::uint32_t messages_ = 0;  // completed (MSN)
  std::uint32_t receives_ = 0;
  Current current_ = Current::kNothing;
  Reth target_{};               // of the current WRITE: what is left of it
  Fifo<Early> early_;           // in any order
  Nanos gap_since_ = 0;         // 0: no packet is missing
  bool asked_ = false;          // for the missing packet
  bool was_not_ready_ = false;  // the expected packet has to come again
  Fifo<Delivery> deliveries_;
  Fifo<Reply> replies_;            // in the order in which they leave
  std::size_t reading_ = 0;        // replies that are READs
  std::size_t reading_again_ = 0;  // and those of requests that came again
  Fifo<Read> history_;             // the last READs
  bool failed_ = false;
  ResponderCounters counters_;
};

}  // namespace tally::transport::roce
