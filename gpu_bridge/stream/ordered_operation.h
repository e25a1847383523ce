// One operation in the order of a stream: the stream's earlier work comes first, then the copies of
// the input to the host, the operation itself, and the copies of the result; the stream's later
// work follows. All of it is enqueued when the operation is posted, and nothing waits for the host.
//
//   caller's stream   e ............................................... waits for end
//   stream down         after e: copy 0, down=1, copy 1, down=2 ...
//   stream up           after e: down>=1? up>=1? copy 0, down>=2? up>=2? copy 1 ...
//                       up=0, landed=1, end
//
// The copies to the host are enqueued before all waits for the host. A device maps streams to a few
// queues, and a wait holds up all later work of its queue. So the copies that the other ranks need
// never stand behind a wait of the same operation. Ranks that post in the same order never wait for
// each other in a circle.
//
// Where the device does not write and await words by itself, host functions do it. The driver runs
// them one after the other, so a wait holds up all others. There each wait stands behind the write
// of its part, and the waits do not overlap with later copies.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "base/result.h"
#include "gpu_bridge/cuda_api/driver.h"
#include "gpu_bridge/stream/handles.h"
#include "gpu_bridge/stream/words.h"

namespace tally::gpu {

// The copies of a part of an operation. The host addresses are in pinned memory. A direction
// without bytes has no copy.
struct PartCopies {
  cuda::Pointer in = 0;
  std::byte* in_host = nullptr;
  std::size_t in_bytes = 0;
  cuda::Pointer out = 0;
  const std::byte* out_host = nullptr;
  std::size_t out_bytes = 0;
};

// The two streams for copies; the directions have streams of their own, so that both directions of
// the bus are busy.
struct CopyStreams {
  static Result<CopyStreams> make(const cuda::Driver& driver, cuda::Context context);

  OwnedStream down;
  OwnedStream up;
};

// Used again and again for operations of one context. One thread enqueues or captures; another one
// may use the functions of the progress at the same time.
class OrderedOperation {
 public:
  // Uses the words `index` of the pool. The pool outlives the object.
  static Result<std::unique_ptr<OrderedOperation>> make(const cuda::Driver& driver,
                                                        cuda::Context context, WordPool& pool,
                                                        std::uint32_t index, bool device_writes);

  // Enqueues the copies of `parts` (at least one), in this order. Returns before they have begun.
  // Blocks while a queue of the device is full; then set_up() of this operation and of earlier ones
  // must go on, by another thread. An error leaves the caller's stream free to go on; the object is
  // then of no further use, and release_streams() must be called.
  Outcome enqueue(const CopyStreams& streams, cuda::Stream caller,
                  std::span<const PartCopies> parts);
  // Called by a thread of the driver. It must not call the driver.
  struct HostCall {
    cuda::HostFunction function = nullptr;
    void* user = nullptr;
  };
  // The same during capture of the caller's stream: each launch of the graph is a round, and calls
  // `begun` when the stream has reached it. `streams` serves this operation alone, because the
  // capture includes it.
  Outcome capture(const CopyStreams& streams, cuda::Stream caller,
                  std::span<const PartCopies> parts, HostCall begun);

  // Of the round under way: how many parts of the input stand in host memory.
  std::uint32_t down() const { return load(words_.down); }
  // The results of the parts before `count` stand in host memory. Precondition: down() >= count, so
  // that no copy of a result runs before the stream has reached the operation.
  void set_up(std::uint32_t count) { store(words_.up, count); }
  bool landed() const { return load(words_.landed) != 0; }
  // Begins the next round. Precondition: landed().
  void next_round() {
    store(words_.down, 0);
    store(words_.landed, 0);
  }
  // No stream waits for the host in the round under way from now on, in any state of it. The copy
  // of a result runs as soon as its input has been copied, with any bytes. The caller's stream goes
  // on when all copies have ended. The words are of no further use.
  void release_streams() { store(words_.up, kAllParts); }

 private:
  static constexpr std::uint32_t kAllParts = 0x7fffffff;  // comparisons are signed

  // What a host function does with a word.
  struct HostStep {
    std::uint32_t* word = nullptr;
    std::uint32_t value = 0;
    bool exactly = false;  // of a wait: until the word is `value`, and not at least `value`

    static void write(void* step);
    static void await(void* step);
  };

  OrderedOperation(const cuda::Driver& driver, cuda::Context context, WordPool& pool,
                   std::uint32_t index, bool device_writes)
      : driver_(driver),
        context_(context),
        pool_(pool),
        words_(pool[index]),
        device_writes_(device_writes) {}
  Outcome begin(const CopyStreams& streams, cuda::Stream caller);
  Outcome copy_both(const CopyStreams& streams, std::span<const PartCopies> parts);
  Outcome copy_down(cuda::Stream stream, const PartCopies& part, std::uint32_t count);
  Outcome copy_up(cuda::Stream stream, const PartCopies& part, std::uint32_t count, bool last);
  Outcome follow(cuda::Stream up, cuda::Stream down);
  Outcome land(cuda::Stream up, cuda::Stream caller);
  Outcome write(cuda::Stream stream, std::uint32_t& word, std::uint32_t value);
  Outcome await(cuda::Stream stream, std::uint32_t& word, std::uint32_t value, unsigned how);
  Outcome call(cuda::Stream stream, cuda::HostFunction function, const HostStep& step);

  const cuda::Driver& driver_;
  cuda::Context context_;
  WordPool& pool_;
  OperationWords& words_;
  bool device_writes_;
  OwnedEvent begin_;
  OwnedEvent down_;  // a place in the stream down, for the stream up
  OwnedEvent end_;
  std::deque<HostStep> steps_;  // whose places stay; kept for the next operation
  std::size_t used_steps_ = 0;
};

}  // namespace tally::gpu
