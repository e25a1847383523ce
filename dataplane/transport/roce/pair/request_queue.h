// The requests of a queue pair in the order of their PSNs, and the place from which their packets
// are sent. A request gets its PSNs when its first packet goes out. It stays until it and all
// before it are done.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/containers/fifo.h"
#include "dataplane/transport/roce/pair/pair.h"

namespace tally::transport::roce {

enum class WorkKind : std::uint8_t { kSend, kWrite, kRead };

// A request of the caller.
struct Work {
  WorkKind kind = WorkKind::kSend;
  std::uint64_t id = 0;               // comes back with the completion
  const std::byte* source = nullptr;  // of kSend and kWrite; borrowed until Done
  std::uint64_t bytes = 0;            // at most 2^31
  std::uint64_t address = 0;          // at the other end, like the key; of kWrite and kRead
  std::uint32_t key = 0;
  std::optional<std::uint32_t> immediate{};  // of kSend and kWrite
};

inline constexpr std::uint32_t kReadPackets = 64;  // of a READ request; longer READs have several
inline constexpr std::uint32_t kFewPackets = 4;    // a READ need not ask for fewer

// A message on its way. A READ has at most kReadPackets, a SEND or WRITE any number.
struct Request {
  WorkKind kind = WorkKind::kSend;
  bool sent = false;
  bool again = false;  // of a READ: its request is to be sent again
  bool done = false;
  bool is_long = false;      // a READ that is part of a long one
  Psn first{};               // without meaning until the request has its PSNs
  std::uint64_t serial = 0;  // of its work
  std::uint64_t offset = 0;  // in its work
  std::uint64_t bytes = 0;
  std::uint64_t wanted = 0;   // of a READ: bit i for packet i
  std::uint64_t missing = 0;  // of a READ: the wanted packets that have not arrived
  Nanos overtaken_since = 0;  // of a READ: something later has arrived; 0: nothing
  std::uint32_t packets = 0;

  Psn end() const { return first + packets; }
  bool is_read() const { return kind == WorkKind::kRead; }
  // Of a READ: a part of it has arrived.
  bool is_touched() const { return missing != wanted; }
  // Of a READ that is not done.
  Psn first_missing() const {
    return first + static_cast<std::uint32_t>(std::countr_zero(missing));
  }
  std::uint64_t all_packets() const {
    return packets >= 64 ? UINT64_MAX : (std::uint64_t{1} << packets) - 1;
  }
};

inline bool is_long_read(const Work& work, std::uint32_t mtu) {
  return work.kind == WorkKind::kRead && packets_of(work.bytes, mtu) > kFewPackets;
}
// A SEND or WRITE, or the part of a READ that begins at `offset`.
Request request_of(const Work& work, std::uint64_t serial, std::uint64_t offset, std::uint32_t mtu);

class RequestQueue {
 public:
  explicit RequestQueue(Psn first) : next_psn_(first) {}

  std::size_t size() const { return requests_.size(); }
  Request& operator[](std::size_t index) { return requests_[index]; }
  const Request& operator[](std::size_t index) const { return requests_[index]; }
  void push(const Request& request) {
    requests_.push_back(request);
    waiting_reads_ += request.is_read() ? 1 : 0;
  }
  // Inserts it after those that have PSNs, before all others.
  void push_next(const Request& request);
  void drop_done();
  void clear();

  // The first so many requests have PSNs.
  std::size_t numbered() const { return numbered_; }
  // The index of the last request that has PSNs and is not done. numbered() where there is none.
  std::size_t last_open() const;
  // READs that have PSNs: the first that is not done, and all after it.
  std::uint32_t reads() const { return reads_; }
  // READs that have no PSNs.
  std::uint32_t waiting_reads() const { return waiting_reads_; }
  // Requests that have or had PSNs.
  std::uint64_t messages() const { return messages_; }
  // The request whose packets have this PSN; null when there is none.
  Request* find(Psn psn);

  // -- the place from which packets are sent
  // Goes past what needs no sending: what is done, READs that have arrived in part, and packets
  // before acknowledged_end. Null: there is nothing to send.
  Request* current(Psn acknowledged_end);
  std::uint32_t part() const { return part_; }             // the packet of the current request
  bool is_numbered() const { return place_ < numbered_; }  // the current one
  void number();  // gives the current one its PSNs. Precondition: it has none
  void sent_part() { ++part_; }
  void go_back_to(Psn psn);
  void go_back_to_first();  // the first that is not done

 private:
  Fifo<Request> requests_;
  std::size_t numbered_ = 0;
  Psn next_psn_;
  std::uint32_t reads_ = 0;
  std::uint32_t waiting_reads_ = 0;
  std::uint64_t messages_ = 0;
  std::size_t place_ = 0;
  std::uint32_t part_ = 0;
};

}  // namespace tally::transport::roce
