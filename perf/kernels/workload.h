// Inputs for the kernel benchmarks, in memory like that of the service, and one reduction over
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "summation/reduce.h"

namespace tally::perf {

std::uint16_t encode_f16(float value);

// Anonymous memory that is aligned to 2 MiB, has MADV_HUGEPAGE, and was written once.
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
  std::size_t bytes = 65536;  // of each input; a multiple of 256
  std::size_t partials = 0;   // inputs of partial_type(), after the others
  bool partial_result = false;
  std::size_t outputs = 1;
  // How many outputs one pass writes; 0 means all. With fewer the sum goes to a tile that stays in
  // cache, and from there to so many outputs at a time.
  std::size_t destinations = 0;
  // Bytes of each call; 0 means one call for all bytes.
  std::size_t tile = 0;
  bool reuse_output = false;  // every call writes to the same tile, which stays in cache
  bool stream = false;
  bool stats = false;
};

// One piece of memory with the inputs, then the partials, then the outputs. The numbers have
// ordinary sizes.
class Workload {
 public:
  explicit Workload(const Shape& shape);

  void reduce(const summation::Kernels& kernels);
  // Uses 512-bit loads when the processor has them.
  void read_ceiling() const;
  // Reduces as BytePS does, into outputs 0. Precondition: f32 or f16.
  void byteps() const;

  const Shape& shape() const { return shape_; }
  // Includes the partials.
  std::size_t input_bytes() const {
    return shape_.width * shape_.bytes + shape_.partials * wide(shape_.bytes);
  }

 private:
  // The bytes of partial_type() elements that correspond to `bytes` of elements.
  std::size_t wide(std::size_t bytes) const { return bytes * scale_; }
  void distribute(const summation::Kernels& kernels, summation::Reduction reduction);

  Shape shape_;
  std::size_t scale_;  // bytes of an element of partial_type() per byte of an element
  HugeMemory memory_;
  std::vector<const std::byte*> inputs_;  // the inputs, then the partials
  std::vector<const std::byte*> pieces_;  // of inputs and partials, each of shape_.bytes
  std::vector<std::byte*> outputs_;
  std::vector<Span> spans_;
  std::vector<View> views_;
  std::vector<std::byte*> tile_outputs_;
  std::vector<std::byte> tile_;  // a tile from which the outputs are copied
  std::vector<summation::BlockStats> stats_;
};

}  // namespace tally::perf
