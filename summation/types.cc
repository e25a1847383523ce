#include "summation/types.h"

namespace tally::summation {

std::optional<ElementType> parse_element_type(std::string_view name) {
  for (const ElementTypeInfo& info : kElementTypes) {
    if (info.name == name) return info.type;
  }
  return std::nullopt;
}

std::optional<Operation> parse_operation(std::string_view name) {
  for (std::size_t i = 0; i < kOperationNames.size(); ++i) {
    if (kOperationNames[i] == name) return static_cast<Operation>(i);
  }
  return std::nullopt;
}

}  // namespace tally::summation
