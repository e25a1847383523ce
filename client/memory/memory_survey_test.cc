#include "client/memory/memory_survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>

#include "base/system/fd.h"
#include "dataplane/transport/shm/memory.h"

namespace tally::client {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kSystemPage = 4096;

Mapping pages(std::size_t count, int rights) {
  void* data = ::mmap(nullptr, count * kSystemPage, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return {data, count * kSystemPage};
}

TEST(MemorySurvey, OrdinaryMemoryCanBeUsedWrittenAndAdopted) {
  const Mapping memory = pages(3, PROT_READ | PROT_WRITE);
  for (const std::size_t offset : {std::size_t{0}, std::size_t{100}}) {
    const MemorySurvey survey = survey_memory(memory.data() + offset, 2 * kSystemPage);
    EXPECT_EQ(survey.why_not_used, "");
    EXPECT_EQ(survey.why_not_adopted, "");
    EXPECT_TRUE(survey.writable);
  }
}

TEST(MemorySurvey, GivesTheReasonWhyMemoryCannotBeAdopted) {
  // Not a local variable: sanitizers put those elsewhere.
  const auto* stack = static_cast<std::byte*>(__builtin_frame_address(0)) - 3 * kSystemPage;
  EXPECT_THAT(survey_memory(stack, 2 * kSystemPage).why_not_adopted, HasSubstr("stack"));
  const Mapping memory = pages(2, PROT_READ | PROT_WRITE);
  EXPECT_EQ(survey_memory(memory.data() + 1, kSystemPage).why_not_adopted,
            "it holds no whole page");
  const auto shared = transport::shm::make_shared("test", 2 * kSystemPage);
  const MemorySurvey survey = survey_memory(shared->mapping.data(), kSystemPage);
  EXPECT_THAT(survey.why_not_adopted, HasSubstr("shared already"));
  EXPECT_EQ(survey.why_not_used, "");
}

TEST(MemorySurvey, OnePageThatCannotBeWrittenMakesAllOfItReadOnly) {
  const Mapping memory = pages(3, PROT_READ | PROT_WRITE);
  ASSERT_EQ(::mprotect(memory.data() + 2 * kSystemPage, kSystemPage, PROT_READ), 0);
  EXPECT_TRUE(survey_memory(memory.data(), 2 * kSystemPage).writable);
  const MemorySurvey survey = survey_memory(memory.data(), 3 * kSystemPage);
  EXPECT_FALSE(survey.writable);
  EXPECT_EQ(survey.why_not_adopted, "it is read-only");
  EXPECT_EQ(survey.why_not_used, "");
  const MemorySurvey edge = survey_memory(memory.data() + 100, 2 * kSystemPage);
  EXPECT_FALSE(edge.writable) << "its last bytes";
  EXPECT_EQ(edge.why_not_adopted, "") << "its whole page can move";
}

TEST(MemorySurvey, MemoryThatIsNotThereOrCannotBeReadCannotBeUsed) {
  EXPECT_EQ(survey_memory(nullptr, kSystemPage).why_not_used, "it is not mapped at 0x0");
  const Mapping memory = pages(3, PROT_READ | PROT_WRITE);
  ASSERT_EQ(::mprotect(memory.data() + kSystemPage, kSystemPage, PROT_NONE), 0);
  EXPECT_EQ(survey_memory(memory.data(), kSystemPage).why_not_used, "");
  EXPECT_THAT(survey_memory(memory.data(), kSystemPage + 1).why_not_used,
              HasSubstr("cannot be read at"));
  ASSERT_EQ(::munmap(memory.data() + kSystemPage, kSystemPage), 0);
  EXPECT_THAT(survey_memory(memory.data(), 3 * kSystemPage).why_not_used,
              HasSubstr("not mapped at"));
  EXPECT_THAT(survey_memory(memory.data(), SIZE_MAX).why_not_used, HasSubstr("last address"));
}

}  // namespace
}  // namespace tally::client
