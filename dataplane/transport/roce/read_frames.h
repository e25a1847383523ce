// The bytes that READs have brought. Long payloads stay in the frames in which they came, and the
// kernels sum them out of the frames. Short ones are copied: a frame that is kept makes the device
// fill a buffer that is in no cache, and that costs more than the copy of a short payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/view.h"
#include "dataplane/transport/roce/port/port_queue.h"

namespace tally::transport::roce {

// By operation: its packets in the order of their bytes, each in a frame or copied. One thread.
class ReadFrames {
 public:
  // Connections whose full packets have fewer bytes keep no frames.
  static constexpr std::uint32_t kLeastPacket = 2048;

  // most: frames that may be kept, because the port needs the others.
  explicit ReadFrames(std::size_t most) : most_(most) {}

  // Takes the payload of a packet that stands `offset` bytes from the begin of the operation's.
  // `packet_bytes`: of all packets but the last. Keeps the frame; copies the bytes to `landing`,
  // which has those of the operation, where packets are short, no more frames may be kept, or the
  // payload is in pieces. The frame stays with the arrival then.
  void add(std::uint32_t operation, std::size_t offset, std::uint32_t packet_bytes,
           Arrival& arrival, std::byte* landing);
  // All bytes of the operation, in order; empty where packets are short, because all bytes are at
  // landing then. Precondition: all its packets were added. Valid until drop().
  View view(std::uint32_t operation) const {
    return operation < pieces_.size() ? View(pieces_[operation].spans) : View();
  }
  // Gives the frames of the operation back. It may have none.
  void drop(std::uint32_t operation);

  std::size_t kept() const { return kept_; }

 private:
  struct Pieces {
    std::vector<Span> spans;
    std::vector<Frame> frames;
  };

  std::size_t most_;
  std::size_t kept_ = 0;
  std::vector<Pieces> pieces_;  // by operation
};

}  // namespace tally::transport::roce
