#include "tests/support/reference.h"

#include <array>
#include <cstring>

namespace tally::testing {

void compute_expected(const protocol::Shape& shape, std::span<const std::byte* const> inputs,
                      Expected& expected) {
  const std::uint64_t size = element_bytes(shape.type);
  expected.elements.resize(shape.count * size);
  expected.stats.clear();
  if (shape.count == 0) return;
  if (protocol::moves_only(shape.kind)) {
    for (std::uint16_t rank = 0; rank < shape.ranks; ++rank) {
      const protocol::Extent extent = contribution(shape, rank);
      if (extent.count == 0) continue;
      std::memcpy(expected.elements.data() + extent.first * size, inputs[rank],
                  extent.count * size);
    }
    return;
  }
  std::array<Span, wire::kMaxRanks> spans;
  std::array<View, wire::kMaxRanks> views;
  for (std::uint16_t rank = 0; rank < shape.ranks; ++rank) {
    spans[rank] = Span{inputs[rank], shape.count * size};
    views[rank] = View(&spans[rank], 1);
  }
  std::byte* const output = expected.elements.data();
  expected.stats.resize((shape.count + summation::kStatsBlock - 1) / summation::kStatsBlock);
  summation::Reduction reduction;
  reduction.type = shape.type;
  reduction.operation = shape.operation;
  reduction.divisor = shape.ranks;
  reduction.count = shape.count;
  reduction.inputs = std::span(views).first(shape.ranks);
  reduction.outputs = std::span(&output, 1);
  reduction.stats = expected.stats;
  summation::reduce(*summation::kernels(summation::Isa::kScalar), reduction);
}

std::span<const std::byte> result_of(const protocol::Shape& shape, std::uint16_t rank,
                                     const Expected& expected) {
  const std::uint64_t size = element_bytes(shape.type);
  const protocol::Extent extent = result(shape, rank);
  return std::span(expected.elements).subspan(extent.first * size, extent.count * size);
}

std::uint64_t input_bytes(const protocol::Shape& shape, std::uint16_t rank) {
  return contribution(shape, rank).count * element_bytes(shape.type);
}

}  // namespace tally::testing
