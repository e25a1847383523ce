// Passes received frames on to the right queue of a port, where the device has put them into
// another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "dataplane/transport/roce/port/frame_memory.h"

struct rte_ring;

namespace tally::transport::roce {

// A ring (rte_ring) for each queue. Lock-free: any thread gives, the queue's own thread takes. The
// destructor frees the frames that wait, so their FrameMemory must outlive it.
class Handover {
 public:
  // Frames that wait at one queue: the answers that a shard lets come at a time, and as many
  // others.
  static constexpr std::uint32_t kEntries = 512;

  // name: unique in the process, at most 16 characters.
  static Result<std::unique_ptr<Handover>> create(const std::string& name, std::uint32_t queues);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  // Returns false when the ring is full; then the frame is lost.
  bool give(std::uint32_t queue, Frame frame);
  // Writes frames to `out`, which the caller owns then, and returns how many.
  std::size_t take(std::uint32_t queue, std::span<rte_mbuf*> out);

 private:
  Handover() = default;

  std::vector<rte_ring*> rings_;  // by queue
};

}  // namespace tally::transport::roce
