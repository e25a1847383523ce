// Inputs for the kernel benchmarks, in memory like the service's, and one reduction over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "summation/reduce.h"

namespace tally::perf {

std::uint16_t encode_f16(float value);

// Anonymous memory, aligned to 2 MiB, MADV_HUGEPAGE, written once.
class HugeMemory {
 public:
  explicit HugeMemory(std::size_t bytes);
  ~HugeMemory();
  HugeMemory(HugeMemory&& other) noexcept;
  HugeMemory& operator=(HugeMemory&&) = delete;
  HugeMemory(const HugeMemory&) = delete;
  HugeMemory& operator=(const HugeMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Shape {
  summation::ElementType type = summation::ElementType::kF32;
  summation::Operation operation = summation::Operation::kSum;
  std::size_t width = 8;
  std::size_t bytes = 65536;  // of each input, a multiple of 256
  std::size_t partials = 0;   // after the inputs, of partial_type()
  bool partial_result = false;
  std::size_t outputs = 1;
  // Stored to by one pass (0: all of them). With fewer the sum goes into a tile that stays in
  // cache, and from there to so many outputs at a time.
  std::size_t destinations = 0;
  // One call per this many bytes (0: one call for all). The outputs are then...
  std::size_t tile = 0;
  bool reuse_output = false;  // ...one tile, written again and again: a slot that stays in cache
  bool stream = false;
  bool stats = false;
};

// The inputs one after the other in one piece of memory, then the partials, then the outputs;
// numbers of ordinary size.
class Workload {
 public:
  explicit Workload(const Shape& shape);

  void reduce(const summation::Kernels& kernels);
  // 512-bit loads where the processor has them.
  void read_ceiling() const;
  // f32 and f16 only: in the manner of BytePS, into outputs 0.
  void byteps() const;

  const Shape& shape() const { return shape_; }
  // With the partials.
  std::size_t input_bytes() const {
    return shape_.width * shape_.bytes + shape_.partials * wide(shape_.bytes);
  }

 private:
  // What as many elements of partial_type() take.
  std::size_t wide(std::size_t bytes) const { return bytes * scale_; }
  void distribute(const summation::Kernels& kernels, summation::Reduction reduction);

  Shape shape_;
  std::size_t scale_;  // bytes of an element of partial_type() per byte of an element
  HugeMemory memory_;
  std::vector<const std::byte*> inputs_;  // then the partials
  std::vector<const std::byte*> pieces_;  // of both, each of shape_.bytes
  std::vector<std::byte*> outputs_;
  std::vector<Span> spans_;
  std::vector<View> views_;
  std::vector<std::byte*> tile_outputs_;
  std::vector<std::byte> slot_;  // of a tile, where the outputs are copied out of it
  std::vector<summation::BlockStats> stats_;
};

}  // namespace tally::perf
