#include "perf/kernels/workload.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <random>
#include <utility>

#include "perf/kernels/byteps_reducer.h"
#include "perf/kernels/ceiling.h"
#include "summation/scalar.h"

namespace tally::perf {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20U;

void fill(std::byte* to, std::size_t bytes, summation::ElementType type) {
  using summation::ElementType;
  std::minstd_rand random(7);
  const std::size_t size = summation::element_bytes(type);
  for (std::size_t at = 0; at < bytes; at += size) {
    const float value = static_cast<float>(random() % 20001) * 0x1p-13F - 1.0F;
    std::uint64_t bits = random();
    if (type == ElementType::kF32) bits = std::bit_cast<std::uint32_t>(value);
    if (type == ElementType::kF64) bits = std::bit_cast<std::uint64_t>(static_cast<double>(value));
    if (type == ElementType::kF16) bits = summation::scalar::round_f16(value);
    if (type == ElementType::kBf16) bits = summation::scalar::round_bf16(value);
    std::memcpy(to + at, &bits, size);
  }
}

}  // namespace

std::uint16_t encode_f16(float value) {
  return summation::scalar::round_f16(value);
}

HugeMemory::HugeMemory(std::size_t bytes)
    : bytes_((bytes + kHugePage - 1) / kHugePage * kHugePage) {
  data_ = static_cast<std::byte*>(std::aligned_alloc(kHugePage, bytes_));
  if (data_ == nullptr) throw std::bad_alloc();
  madvise(data_, bytes_, MADV_HUGEPAGE);
  std::memset(data_, 0, bytes_);
}

HugeMemory::HugeMemory(HugeMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

HugeMemory::~HugeMemory() {
  std::free(data_);
}

Workload::Workload(const Shape& shape)
    : shape_(shape),
      scale_(summation::element_bytes(summation::partial_type(shape.type, shape.operation)) /
             summation::element_bytes(shape.type)),
      memory_(input_bytes() + shape.outputs * wide(shape.bytes)) {
  if (shape_.tile == 0) shape_.tile = shape_.bytes;
  for (std::size_t i = 0; i < shape.width; ++i) {
    std::byte* input = memory_.data() + i * shape.bytes;
    if (i == 0) {
      fill(input, shape.bytes, shape.type);
    } else {
      std::memcpy(input, inputs_[0], shape.bytes);
    }
    inputs_.push_back(input);
  }
  for (std::size_t p = 0; p < shape.partials; ++p) {
    std::byte* partial = memory_.data() + shape.width * shape.bytes + p * wide(shape.bytes);
    fill(partial, wide(shape.bytes), summation::partial_type(shape.type, shape.operation));
    inputs_.push_back(partial);
  }
  for (std::size_t at = 0; at < input_bytes(); at += shape.bytes) {
    pieces_.push_back(memory_.data() + at);
  }
  const std::size_t output_bytes = shape.partial_result ? wide(shape.bytes) : shape.bytes;
  for (std::size_t o = 0; o < shape.outputs; ++o) {
    outputs_.push_back(memory_.data() + input_bytes() + o * output_bytes);
  }
  spans_.resize(inputs_.size());
  for (const Span& span : spans_) views_.emplace_back(&span, 1);
  tile_outputs_.resize(shape.outputs);
  tile_.resize(shape_.tile);
  const std::size_t elements = shape_.tile / summation::element_bytes(shape.type);
  if (shape.stats) {
    stats_.resize((elements + summation::kStatsBlock - 1) / summation::kStatsBlock);
  }
}

void Workload::reduce(const summation::Kernels& kernels) {
  summation::Reduction reduction;
  reduction.type = shape_.type;
  reduction.operation = shape_.operation;
  reduction.divisor = static_cast<std::uint32_t>(inputs_.size());
  reduction.count = shape_.tile / summation::element_bytes(shape_.type);
  reduction.inputs = std::span(views_).first(shape_.width);
  reduction.partials = std::span(views_).subspan(shape_.width);
  reduction.partial_result = shape_.partial_result;
  reduction.outputs = tile_outputs_;
  reduction.stats = stats_;
  reduction.stream_outputs = shape_.stream;
  for (std::size_t at = 0; at + shape_.tile <= shape_.bytes; at += shape_.tile) {
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      spans_[i] = i < shape_.width ? Span{inputs_[i] + at, shape_.tile}
                                   : Span{inputs_[i] + wide(at), wide(shape_.tile)};
    }
    const std::size_t offset = shape_.partial_result ? wide(at) : at;
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      tile_outputs_[o] = outputs_[o] + (shape_.reuse_output ? 0 : offset);
    }
    if (shape_.destinations == 0) {
      summation::reduce(kernels, reduction);
    } else {
      distribute(kernels, reduction);
    }
  }
}

void Workload::distribute(const summation::Kernels& kernels, summation::Reduction reduction) {
  const std::span<std::byte* const> outputs = reduction.outputs;
  std::byte* result = tile_.data();
  reduction.outputs = {&result, 1};
  reduction.stream_outputs = false;
  summation::reduce(kernels, reduction);
  const Span tile{result, shape_.tile};
  const View view(&tile, 1);
  reduction.inputs = {&view, 1};
  reduction.stream_outputs = shape_.stream;
  for (std::size_t o = 0; o < outputs.size(); o += shape_.destinations) {
    reduction.outputs = outputs.subspan(o, std::min(shape_.destinations, outputs.size() - o));
    summation::reduce(kernels, reduction);
  }
}

void Workload::read_ceiling() const {
  static const bool wide_loads = summation::kernels(summation::Isa::kAvx512) != nullptr;
  const unsigned something =
      (wide_loads ? read_avx512 : read_avx2)(pieces_.data(), pieces_.size(), shape_.bytes);
  asm volatile("" : : "r"(something));  // the compiler must not leave the loads out
}

void Workload::byteps() const {
  if (shape_.type == summation::ElementType::kF32) {
    std::vector<const float*> arrivals;
    for (const std::byte* p : inputs_) arrivals.push_back(reinterpret_cast<const float*>(p));
    byteps_reduce_f32(reinterpret_cast<float*>(outputs_[0]), arrivals.data(), arrivals.size(),
                      shape_.bytes / sizeof(float));
  } else {
    std::vector<const std::uint16_t*> arrivals;
    for (const std::byte* p : inputs_) {
      arrivals.push_back(reinterpret_cast<const std::uint16_t*>(p));
    }
    byteps_reduce_f16(reinterpret_cast<std::uint16_t*>(outputs_[0]), arrivals.data(),
                      arrivals.size(), shape_.bytes / sizeof(std::uint16_t));
  }
}

}  // namespace tally::perf
