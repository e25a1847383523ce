// A shard's queue pair of a port: receives and sends RoCEv2 packets, and checks and makes their
// ICRC. Only one thread may use it at a time. Nothing here waits, allocates or throws.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/crc32.h"
#include "base/view.h"
#include "dataplane/transport/roce/port/frame_memory.h"
#include "dataplane/transport/roce/port/handover.h"
#include "dataplane/transport/roce/port/shared_resolver.h"
#include "dataplane/transport/roce/wire/icrc.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {

inline constexpr std::size_t kMostAddresses = 8;
inline constexpr std::size_t kMostSpans = 8;

// Whether the device may read a payload where it lies.
enum class Payload : std::uint8_t { kLent, kCopied };

// A packet that was received: valid by itself, with a right ICRC, and for an address of the port.
struct Arrival {
  Packet packet{};
  Frame frame;  // owns the bytes of the payload

  // Without padding. Valid as long as `frame`.
  View payload() const { return View(spans).first(span_count); }

  std::array<Span, kMostSpans> spans{};
  std::size_t span_count = 0;
};

// All but *_bytes are numbers of frames. Bytes are those of whole frames.
struct PortCounters {
  std::uint64_t received_packets = 0;  // became Arrivals
  std::uint64_t received_bytes = 0;
  // By Unreadable; kNotRoce went to the address resolver.
  std::array<std::uint64_t, 7> unreadable{};
  std::uint64_t wrong_icrc = 0;
  std::uint64_t other_address = 0;  // for another MAC or IP address, or of another VLAN
  std::uint64_t joined = 0;         // payloads of more than kMostSpans pieces, copied
  std::uint64_t no_buffer = 0;      // dropped, because no buffer was free to copy to
  std::uint64_t wrong_queue = 0;    // for another queue, and passed on to it
  std::uint64_t not_passed_on = 0;  // dropped, because too many waited there already
  std::uint64_t sent_packets = 0;   // that the device has taken
  std::uint64_t sent_bytes = 0;
  std::uint64_t borrowed_packets = 0;  // with a payload that was not copied
  std::uint64_t copied_packets = 0;    // with a payload that was copied
  std::uint64_t copied_bytes = 0;      // of payload
  std::uint64_t no_room = 0;           // refusals of send() and send_frame()
  std::uint64_t answers = 0;           // frames of the address resolver
  // Of the port: that the device dropped because a queue was full or no buffer was free. Port has
  // it; a queue leaves it at 0.
  std::uint64_t missed = 0;
};

class PortQueue {
 public:
  // A payload of at most so many bytes is copied, because that costs less than further buffers.
  static constexpr std::uint32_t kCopiedPayload = 1024;

  struct Setup {
    std::uint16_t port = 0;
    std::uint16_t queue = 0;
    std::uint32_t queues = 1;      // of the port
    Handover* handover = nullptr;  // borrowed; needed where the port has several queues
    MacAddress mac{};
    std::uint16_t vlan = 0;  // 0: packets have no tag
    std::array<IpAddress, kMostAddresses> addresses{};
    std::size_t address_count = 0;
    const Crc32* crc = nullptr;       // borrowed
    std::uint32_t most_segments = 0;  // of a frame that is sent, at least 1
    std::uint32_t frame_bytes = 0;    // the longest frame
    FrameMemory headers;              // buffers of kHeaderBuffer bytes: begin and end of frames
    FrameMemory payloads;             // buffers without bytes, which refer to borrowed ones
    FrameMemory copies;               // buffers of frame_bytes
  };
  static constexpr std::uint32_t kHeaderBuffer = kMostHeaders + kCopiedPayload + 3 + kIcrcBytes;

  explicit PortQueue(Setup setup);
  // Precondition: the device does not have frames of this queue any more.
  ~PortQueue();
  PortQueue(const PortQueue&) = delete;
  PortQueue& operator=(const PortQueue&) = delete;

  // Frames that are not RoCE go to the resolver, which is borrowed; its requests are sent too. The
  // first queue of a port has one, and other queues pass such frames on to it. Without one they are
  // dropped.
  void set_resolver(SharedResolver* resolver) { resolver_ = resolver; }

  // Takes what other queues have passed on and one burst from the device, at most `out.size()`
  // frames. Returns the number of Arrivals that it wrote, which is smaller when frames were dropped
  // or passed on. What `out` held before is freed.
  std::size_t receive(std::span<Arrival> out, Nanos now);

  // Queues a packet, with its route complete; sets its payload, network, base and headers. Returns
  // false when there is no room, and then nothing is queued. A payload that is lent must lie in
  // memory of the EAL, because devices may be unable to read other memory and then lose the packet.
  // It may change once borrowed() is 0, or when the peer has acknowledged it: a packet that leaves
  // after that has a wrong ICRC. A frame must fit into the port's MTU.
  bool send(Packet& packet, View payload, Payload kind = Payload::kLent);
  // Queues a copy of a whole frame of any protocol.
  bool send_frame(std::span<const std::byte> frame);

  // Gives all queued frames to the device, as far as it takes them. Returns how many are left.
  std::size_t flush();
  // Asks the device to return what it has sent. Drivers otherwise do that when entries are short,
  // so a queue that has gone idle calls this to get its loans back. Some drivers cannot.
  void reclaim();

  // Pieces of payload that the device has borrowed in all. Slow: not for the hot path.
  std::uint32_t borrowed() const { return setup_.payloads.in_use(); }
  const PortCounters& counters() const { return counters_; }

 private:
  static constexpr std::size_t kBurst = 32;
  static constexpr std::size_t kPending = 64;

  bool accept(rte_mbuf* chain, Arrival& out, Nanos now);
  bool passes_on(std::uint32_t queue, Frame& frame);
  bool is_for_us(const Route& route) const;
  bool read_payload(rte_mbuf* chain, std::span<const std::byte> headers, Arrival& out);
  bool read_pieces(rte_mbuf* chain, std::span<const std::byte> headers, Arrival& out);
  bool join(Arrival& out);
  void resolve(rte_mbuf* chain, Nanos now);
  void poll_resolver(Nanos now);
  bool has_room();
  void queue(rte_mbuf* chain);
  bool send_copy(Packet& packet, View payload, FrameMemory& memory);
  bool send_borrowed(Packet& packet, View payload);
  rte_mbuf* borrow(View payload, rte_mbuf* head);
  bool refuse();

  Setup setup_;
  SharedResolver* resolver_ = nullptr;
  Loan loan_;
  std::array<rte_mbuf*, kPending> pending_{};
  std::size_t pending_count_ = 0;
  PortCounters counters_;
};

}  // namespace tally::transport::roce
