#include "base/text/quoted.h"

#include <gtest/gtest.h>

namespace tally {
namespace {

TEST(Quoted, EscapesQuotesBackslashesAndControlCharacters) {
  EXPECT_EQ(quoted("", "\\x%02x"), R"("")");
  EXPECT_EQ(quoted(R"(a "b" \c)", "\\x%02x"), R"("a \"b\" \\c")");
  EXPECT_EQ(quoted("a\nb\x7f", "\\x%02x"), R"("a\x0ab\x7f")");
  EXPECT_EQ(quoted("\t", "\\u%04x"), R"("\u0009")");
  EXPECT_EQ(quoted("\xc3\xa9", "\\u%04x"), "\"\xc3\xa9\"") << "UTF-8 stays";
}

}  // namespace
}  // namespace tally
