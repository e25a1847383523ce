// An operation on memory of a device, from tally_post until its result stands there. It is made of
// chunks, which are operations for the session, and of the copies that gpu_bridge enqueues. This
// class decides which chunk is next; it posts none itself. Pure but for the words that the device
// writes. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/device/device_regions.h"
#include "client/operations/chunks.h"
#include "client/operations/pending_operations.h"
#include "client/operations/post.h"
#include "gpu_bridge/stream/ordered_operation.h"

namespace tally::client {

// The buffers of an operation; null where it has none or where it lies in host memory.
struct DeviceBuffers {
  const DeviceRegion* in = nullptr;
  const DeviceRegion* out = nullptr;

  const DeviceRegion& any() const { return in != nullptr ? *in : *out; }
};

class DeviceOperation {
 public:
  // `post` is the whole operation, over the regions that the nodes know.
  DeviceOperation(const Post& post, const protocol::Shape& shape, std::uint16_t rank,
                  const DeviceBuffers& buffers);

  const Post& post() const { return post_; }
  std::uint32_t tag() const { return post_.notice.tag; }
  const DeviceBuffers& buffers() const { return buffers_; }
  std::uint32_t size() const { return chunks_.size(); }
  Outcome check() const { return chunks_.check(); }
  Chunk chunk(std::uint32_t index) const { return chunks_[index]; }
  // The chunk as an operation of the session. Its `user` is the index.
  Post post_of(std::uint32_t index) const;
  gpu::PartCopies copies_of(std::uint32_t index) const;

  // -- a round ----------------------------------------------------------------------------------

  void follow(std::unique_ptr<gpu::OrderedOperation> ordered) { ordered_ = std::move(ordered); }
  gpu::OrderedOperation& ordered() { return *ordered_; }
  std::unique_ptr<gpu::OrderedOperation> take_ordered() { return std::move(ordered_); }

  // Whether a chunk can be posted: the device has brought it to the host. Each chunk is posted,
  // also after a failure, because the rounds of its tag must be the same at all ranks.
  bool has_next() const { return !device_lost_ && posted_ < size() && posted_ < ordered_->down(); }
  std::uint32_t next() const { return posted_; }
  void posted() { ++posted_; }
  bool has_posted() const { return posted_ > 0; }
  bool outstanding(std::uint32_t index) const { return index < posted_ && !ended_[index]; }
  // Takes the end of a posted chunk. The first failure is the operation's.
  void end(std::uint32_t index, Completed&& completed);
  // Whether chunks at the front have ended and are not published to the device.
  bool has_results() const { return up_ > published_; }
  void publish();

  // The operation is cancelled or has failed: chunks are cancelled as soon as they are posted.
  void give_up() { given_up_ = true; }
  bool given_up() const { return given_up_; }
  // The device does no more work for the operation, in this round and later ones. Chunks that it
  // has not brought are not posted: no rank may sum what lies in their place.
  void lose_device(const Error& why);
  bool device_lost() const { return device_lost_; }

  // Whether the next event may be one of the device.
  bool waits_for_device() const { return posted_ < size() || ended_count_ == size(); }
  bool has_ended() const { return ended_count_ == size() && (device_lost_ || ordered_->landed()); }
  // The completion of the operation. The next round begins. Precondition: has_ended().
  Completed take_completion();

 private:
  void fail(Completed&& completed);
  std::string with_own_tag(std::string message, std::uint32_t index) const;
  // Where the chunk's bytes begin in a buffer, which has the elements `whole`.
  std::uint64_t offset_of(std::uint64_t buffer_offset, const protocol::Extent& whole,
                          const protocol::Extent& part, const Chunk& chunk) const;

  Post post_;
  protocol::Shape shape_;
  std::uint16_t rank_;
  DeviceBuffers buffers_;
  Chunks chunks_;
  Extents extents_;
  std::unique_ptr<gpu::OrderedOperation> ordered_;
  std::uint32_t posted_ = 0;
  std::uint32_t ended_count_ = 0;
  std::uint32_t up_ = 0;         // chunks at the front that have ended
  std::uint32_t published_ = 0;  // the value of up_ that the device has
  bool given_up_ = false;
  bool device_lost_ = false;
  std::vector<bool> ended_;
  Completed completion_;
};

}  // namespace tally::client
