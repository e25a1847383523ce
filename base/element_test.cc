#include "base/element.h"

#include <gtest/gtest.h>

namespace tally {
namespace {

TEST(Element, TheTableIsIndexedByItsOwnNumbers) {
  for (std::size_t i = 0; i < kElementTypes.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kElementTypes[i].type), i);
    EXPECT_EQ(parse_element_type(kElementTypes[i].name), kElementTypes[i].type);
  }
  EXPECT_EQ(element_bytes(ElementType::kBf16), 2u);
  EXPECT_EQ(element_bytes(ElementType::kI64), 8u);
}

TEST(Element, OperationsGoByName) {
  EXPECT_EQ(parse_operation("avg"), Operation::kAverage);
  EXPECT_EQ(name(Operation::kMax), "max");
  EXPECT_EQ(parse_operation("mean"), std::nullopt);
  EXPECT_EQ(parse_element_type("F32"), std::nullopt);
}

}  // namespace
}  // namespace tally
