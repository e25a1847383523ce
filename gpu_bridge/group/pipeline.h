// The three stages of operations as work of streams, so that the stages of different chunks
// overlap:
//
//   reduce   chunk 0 | chunk 1 | chunk 2 | chunk 3 ...
//   sum                chunk 0 | chunk 1 | chunk 2 ...   through Tally, several streams
//   gather                       chunk 0 | chunk 1 ...
//
// All work of an operation is enqueued at once. NCCL runs the calls of a communicator in their
// order, so the reduction of chunk i + depth is enqueued before chunk i is gathered. Each piece of
// work depends on pieces that were enqueued before it, at this rank or at others. So ranks that
// enqueue the same operations in the same order never wait for each other in a circle, even where a
// device has one hardware queue for all streams.
//
// But stages overlap only where the streams have queues of their own. A rank with one column has
// depth + 5 streams: those of the stages, two for the copies of Tally, and the caller's. By default
// a device has 8 queues (CUDA_DEVICE_MAX_CONNECTIONS), so the depth is 3 by default.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "gpu_bridge/cuda_api/driver.h"
#include "gpu_bridge/stream/handles.h"

namespace tally::gpu {

// What the stages of an operation enqueue. An error of a stage ends the operation.
class Stages {
 public:
  virtual ~Stages() = default;
  virtual Outcome reduce(std::uint32_t chunk, cuda::Stream stream) = 0;
  // This rank's part of the chunk in one of its columns. False: there is none.
  virtual Result<bool> sum(std::uint32_t chunk, std::size_t column, cuda::Stream stream) = 0;
  virtual Outcome gather(std::uint32_t chunk, cuda::Stream stream) = 0;
};

// Marks the begin and the end of an operation in the order of its caller's stream.
struct Marks {
  static Result<Marks> make(const cuda::Driver& driver, cuda::Context context);

  OwnedEvent begin;
  OwnedEvent end;
};

// One thread at a time.
class Pipeline {
 public:
  // `columns`: how many columns the rank owns. `depth`: how many chunks are between the first stage
  // and the last, at least 1.
  static Result<std::unique_ptr<Pipeline>> make(const cuda::Driver& driver, cuda::Context context,
                                                std::size_t columns, std::uint32_t depth);

  // Enqueues the stages of all chunks behind the work of `caller`, whose later work waits for them.
  // After an error the caller's stream does not wait.
  Outcome enqueue(Stages& stages, std::uint32_t chunks, cuda::Stream caller, const Marks& marks);

 private:
  // Of a chunk between the first stage and the last.
  struct Between {
    OwnedEvent reduced;
    std::vector<OwnedEvent> summed;  // by column
    std::vector<bool> sends;         // by column: this rank has a part of the chunk
  };

  Pipeline(const cuda::Driver& driver, cuda::Context context)
      : driver_(driver), context_(context) {}
  Outcome begin(std::uint32_t chunk, Stages& stages);
  Outcome finish(std::uint32_t chunk, Stages& stages);
  Outcome record(const OwnedEvent& event, cuda::Stream stream);
  Outcome await(cuda::Stream stream, const OwnedEvent& event);

  const cuda::Driver& driver_;
  cuda::Context context_;
  std::uint32_t depth_ = 1;
  OwnedStream reduce_;
  OwnedStream gather_;
  std::vector<std::vector<OwnedStream>> sum_;  // by chunk modulo depth, then by column
  std::vector<Between> between_;               // by chunk modulo depth + 1
};

}  // namespace tally::gpu
