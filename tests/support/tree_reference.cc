#include "tests/support/tree_reference.h"

#include <algorithm>

namespace tally::testing {
namespace {

using Bytes = std::vector<std::byte>;

summation::Reduction reduction_of(const protocol::Shape& shape) {
  summation::Reduction reduction;
  reduction.type = shape.type;
  reduction.operation = shape.operation;
  reduction.divisor = shape.ranks;
  reduction.count = shape.count;
  return reduction;
}

Bytes sum(const TreeShape& tree, std::size_t vertex, const protocol::Shape& shape,
          std::span<const std::byte* const> inputs) {
  const bool partial = vertex != 0;
  const ElementType wide = partial_type(shape.type, shape.operation);
  std::vector<Bytes> partials;
  std::vector<Span> spans;
  for (const std::uint16_t rank : tree[vertex].ranks) {
    spans.push_back({inputs[rank], shape.count * element_bytes(shape.type)});
  }
  for (const std::size_t child : children_of(tree, vertex)) {
    partials.push_back(sum(tree, child, shape, inputs));
  }
  for (const Bytes& bytes : partials) spans.push_back({bytes.data(), bytes.size()});
  std::vector<View> views;
  for (const Span& span : spans) views.emplace_back(&span, 1);
  Bytes result(shape.count * element_bytes(partial ? wide : shape.type));
  std::byte* const output = result.data();
  summation::Reduction reduction = reduction_of(shape);
  reduction.partial_result = partial;
  reduction.inputs = std::span(views).first(tree[vertex].ranks.size());
  reduction.partials = std::span(views).subspan(tree[vertex].ranks.size());
  reduction.outputs = {&output, 1};
  summation::reduce(*summation::kernels(summation::Isa::kScalar), reduction);
  return result;
}

}  // namespace

std::vector<std::size_t> children_of(const TreeShape& tree, std::size_t vertex) {
  std::vector<std::size_t> children;
  for (std::size_t v = 1; v < tree.size(); ++v) {
    if (tree[v].parent == vertex) children.push_back(v);
  }
  return children;
}

std::vector<std::uint16_t> ranks_below(const TreeShape& tree, std::size_t vertex) {
  std::vector<std::uint16_t> ranks = tree[vertex].ranks;
  for (const std::size_t child : children_of(tree, vertex)) {
    const auto more = ranks_below(tree, child);
    ranks.insert(ranks.end(), more.begin(), more.end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::uint32_t height_of(const TreeShape& tree, std::size_t vertex) {
  std::uint32_t height = 1;
  for (const std::size_t child : children_of(tree, vertex)) {
    height = std::max(height, height_of(tree, child) + 1);
  }
  return height;
}

void compute_expected_in(const TreeShape& tree, const protocol::Shape& shape,
                         std::span<const std::byte* const> inputs, Expected& expected) {
  if (protocol::moves_only(shape.kind) || shape.count == 0) {
    return compute_expected(shape, inputs, expected);
  }
  expected.elements = sum(tree, 0, shape, inputs);
  expected.stats.resize(stats_blocks(shape.count));
  // The statistics of the result are those of a sum of it alone.
  const Bytes result = expected.elements;
  const Span span{result.data(), result.size()};
  const View view(&span, 1);
  std::byte* const output = expected.elements.data();
  summation::Reduction reduction = reduction_of(shape);
  reduction.operation = Operation::kSum;
  reduction.inputs = {&view, 1};
  reduction.outputs = {&output, 1};
  reduction.stats = expected.stats;
  summation::reduce(*summation::kernels(summation::Isa::kScalar), reduction);
}

}  // namespace tally::testing
