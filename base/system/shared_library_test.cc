#include "base/system/shared_library.h"

#include <gtest/gtest.h>

#include <optional>

namespace tally {
namespace {

const std::string kPath = SMALL_LIBRARY;

bool is_loaded() {
  void* const handle = ::dlopen(SMALL_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
  return handle != nullptr && ::dlclose(handle) == 0;
}

SharedLibrary open_small() {
  return SharedLibrary::open(kPath, "build it").value();
}

TEST(SharedLibrary, NamesTheLibraryThatCannotBeOpened) {
  const auto library = SharedLibrary::open("libtally_absent.so.1", "install it");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.status(), Status::kUnsupported);
  const std::string& message = library.error().message;
  EXPECT_TRUE(message.starts_with("libtally_absent.so.1 cannot be opened (")) << message;
  EXPECT_TRUE(message.ends_with("): install it")) << message;
}

TEST(SharedLibrary, FindsFunctions) {
  SharedLibrary library = open_small();
  int (*number)() = nullptr;
  library.find("tally_test_number", number);
  ASSERT_NE(number, nullptr);
  EXPECT_TRUE(library.check_complete("install a later one"));
  EXPECT_EQ(number(), 7);
}

TEST(SharedLibrary, NamesTheFirstFunctionThatIsMissing) {
  SharedLibrary library = open_small();
  int (*number)() = nullptr;
  void (*first)() = [] {};
  void (*second)() = [] {};
  library.find("tally_test_number", number);
  library.set("tally_test_first", nullptr, first);
  library.find("tally_test_second", second);
  EXPECT_EQ(first, nullptr);
  EXPECT_EQ(second, nullptr);
  const SharedLibrary moved = std::move(library);
  const Outcome complete = moved.check_complete("install a later one");
  EXPECT_EQ(complete.status(), Status::kUnsupported);
  EXPECT_EQ(complete.error().message, kPath + " has no tally_test_first: install a later one");
}

TEST(SharedLibrary, ClosesAtTheEndOfTheLastOwner) {
  std::optional<SharedLibrary> owner;
  {
    SharedLibrary library = open_small();
    owner = std::move(library);
  }
  EXPECT_TRUE(is_loaded());
  owner.reset();
  EXPECT_FALSE(is_loaded());
}

TEST(SharedLibrary, StaysOpenOnRequest) {
  open_small().keep_open();
  EXPECT_TRUE(is_loaded());
  // So that a repetition of the tests begins without the library.
  void* const handle = ::dlopen(SMALL_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
  ::dlclose(handle);
  ::dlclose(handle);
  EXPECT_FALSE(is_loaded());
}

}  // namespace
}  // namespace tally
