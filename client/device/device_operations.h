// The operations of a session on memory of devices, from tally_post to the completion. Each is
// enqueued in the order of the caller's stream and posted chunk by chunk as the device brings the
// bytes. One thread at a time uses it, together with the session, under a lock.
//
// Functions that take the lock give it up around calls of CUDA that may block until devices have
// done work: a device does it only while another thread calls progress() and take().
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/system/fd.h"
#include "client/device/device_context.h"
#include "client/device/device_operation.h"
#include "client/device/device_regions.h"
#include "client/session/session.h"

namespace tally::client {

class DeviceOperations {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // An operation of a graph that begins makes `wake_fd`, an eventfd, readable.
  DeviceOperations(const cuda::Driver& driver, Session& session, int wake_fd)
      : driver_(driver), session_(session), wake_fd_(wake_fd), regions_(driver, session) {}
  // No stream waits for an operation afterwards. What the devices may still use stays pinned.
  ~DeviceOperations();
  DeviceOperations(const DeviceOperations&) = delete;
  DeviceOperations& operator=(const DeviceOperations&) = delete;

  // Registers memory of a device. The region that is returned stands for it.
  Result<Region*> add_region(Lock& lock, cuda::Pointer data, std::size_t bytes);
  Outcome remove_region(Lock& lock, Region* region);
  bool owns(const Region* region) const { return regions_.find(region) != nullptr; }

  // Posts an operation of which a buffer at least is memory of a device, in the order of `stream`.
  // When the stream is being captured, each launch of its graph posts the operation. Once chunks
  // are posted, an error of CUDA ends the operation and is no error of this function.
  Outcome post(Lock& lock, const Post& post, cuda::Stream stream);
  // Whether post() would be captured. False for an operation without memory of a device.
  Result<bool> is_capturing(const Post& post, cuda::Stream stream) const;
  // False: there is no such operation.
  bool cancel(std::uint32_t tag);
  void cancel_all();
  // Whether the tag is one of an operation that is outstanding or belongs to a graph.
  bool has(std::uint32_t tag) const { return by_tag_.contains(tag); }

  // The calling thread's calls of the driver do not end captures of other threads.
  void allow_calls_during_captures() const { cuda::allow_calls_during_captures(driver_); }

  // Takes a completion of the session. False: it is not of a chunk, and `completed` is unchanged.
  bool take(Completed& completed);
  // Posts the chunks that devices have brought, and publishes results to devices. True when
  // anything has changed.
  bool progress();
  // Ends the operations of devices that have failed.
  void look_for_failures();
  // The oldest completion; false when there is none.
  bool take_finished(Completed& completed);

  // Bytes that devices have copied from and to pinned memory, for operations that have ended.
  std::uint64_t copied_bytes() const { return copied_bytes_; }
  // Operations that have no completion yet. Those of graphs do not count.
  std::uint32_t outstanding() const { return outstanding_; }
  // No operation is outstanding, and no round of a graph.
  bool is_idle() const;
  // Whether the next event may be a word of a device, which wakes no thread.
  bool waits_for_device() const;

 private:
  // Of an operation that was captured into a graph.
  struct Captured {
    gpu::CopyStreams streams;
    UniqueFd wake_fd;  // its own, because rounds may begin after the session's end
    std::atomic<std::uint32_t> rounds{0};  // that have begun and have not ended

    static void begin_round(void* captured);  // called by a thread of the driver
  };
  struct Live {
    std::unique_ptr<DeviceOperation> operation;
    DeviceContext* context = nullptr;
    std::unique_ptr<Captured> captured;  // null: not captured, and forgotten at its end
    std::uint64_t copied_bytes = 0;      // of each round
    bool enqueuing = false;              // post() is still enqueuing it

    bool under_way() const {
      return captured == nullptr || captured->rounds.load(std::memory_order_acquire) > 0;
    }
  };

  Outcome add_context(Lock& lock, cuda::Context handle);
  Outcome check(const Post& post, const DeviceBuffers& buffers) const;
  // Takes what the operation needs from its context.
  Outcome prepare(Live& live, cuda::Stream stream);
  Live& add(Live live);
  void remove(Live& live);
  Outcome enqueue(Live& live, cuda::Stream stream);
  // Ends an operation that is only partly enqueued.
  Outcome stop_enqueuing(Live& live, const Error& error);
  // False: the credit is used up.
  bool post_chunks(DeviceOperation& operation, bool& any);
  bool publish(const Live& live);
  void end_chunks(DeviceOperation& operation);
  void finish(Live& live);

  const cuda::Driver& driver_;
  Session& session_;
  int wake_fd_;
  DeviceRegions regions_;
  std::map<cuda::Context, std::unique_ptr<DeviceContext>> contexts_;
  // In the order of the posts, which is the same at all ranks. Chunks get credit in this order: if
  // operations overtook each other, ranks could use it up for different ones, and none would end.
  // Rounds of graphs have their place by the capture, and end by the deadline in that case.
  std::list<Live> operations_;
  std::unordered_map<std::uint32_t, std::list<Live>::iterator> by_tag_;
  std::deque<Completed> finished_;
  std::vector<gpu::PartCopies> copies_;  // of post(); kept for its memory
  std::uint32_t outstanding_ = 0;
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace tally::client
