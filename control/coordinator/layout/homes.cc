#include "control/coordinator/layout/homes.h"

#include <algorithm>

#include "control/plan/model/assign.h"

namespace tally::control {
namespace {

using protocol::Operand;
using protocol::SizeClass;

// Most gradients are f32. For other types, cuts may fall one block elsewhere.
Operand operand_of(const plan::Tensor& tensor) {
  const bool floats = tensor.bytes % 4 == 0;
  return {.tag = tensor.tag,
          .type = floats ? ElementType::kF32 : ElementType::kU8,
          .count = floats ? tensor.bytes / 4 : tensor.bytes};
}

// The bytes of divided operations, by tree.
std::vector<std::uint64_t> divided_bytes(const protocol::Partition& plan,
                                         const std::vector<plan::Tensor>& tensors) {
  std::vector<std::uint64_t> bytes(plan.trees);
  for (const plan::Tensor& tensor : tensors) {
    const Operand operand = operand_of(tensor);
    const std::uint32_t parts = protocol::part_count(plan, operand);
    for (std::uint32_t i = 0; i < parts && parts > 1; ++i) {
      const protocol::Part part = protocol::cut(plan, operand, i);
      bytes[part.tree] += part.count * element_bytes(operand.type);
    }
  }
  return bytes;
}

}  // namespace

std::vector<protocol::Home> known_homes(const protocol::Partition& plan,
                                        const std::vector<plan::Tensor>& tensors) {
  std::vector<protocol::Home> homes;
  std::vector<std::uint64_t> common = divided_bytes(plan, tensors);
  const SizeClass& last = plan.classes.back();
  for (auto one = plan.classes.rbegin(); one != plan.classes.rend(); ++one) {
    std::vector<plan::Tensor> whole;
    std::vector<std::uint64_t> sizes;
    for (const plan::Tensor& tensor : tensors) {
      const Operand operand = operand_of(tensor);
      const bool here = &protocol::class_of(plan, operand) == &*one;
      if (!here || protocol::part_count(plan, operand) > 1) continue;
      whole.push_back(tensor);
      sizes.push_back(tensor.bytes);
    }
    std::vector<std::uint32_t> weights(plan.trees);
    for (std::size_t i = 0; i < one->trees.size(); ++i) weights[one->trees[i]] = one->weights[i];
    const bool shares = one->trees == last.trees && one->weights == last.weights;
    const plan::Assignment given =
        plan::assign(sizes, weights, shares ? common : std::vector<std::uint64_t>{});
    if (shares) common = given.bytes;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      homes.push_back({whole[i].tag, whole[i].bytes, given.tree_of[i]});
    }
  }
  std::sort(homes.begin(), homes.end(), [](const auto& a, const auto& b) { return a.tag < b.tag; });
  return homes;
}

}  // namespace tally::control
