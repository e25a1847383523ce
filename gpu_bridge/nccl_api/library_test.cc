#include "gpu_bridge/nccl_api/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/program_output.h"
#include "tests/support/temporary_directory.h"

namespace tally::nccl {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What system_library() reports in a process that finds libnccl.so.2 in this folder.
std::string report(const std::string& folder) {
  return test::output_with_libraries(LIBRARY_REPORT, folder + ":" CUDA_FOLDER);
}

TEST(NcclLibrary, ReportsThatThereIsNone) {
  const test::TemporaryDirectory folder;
  // On a machine that has NCCL, the broken one comes first.
  std::ofstream(folder / "libnccl.so.2") << "not a library";
  const std::string text = report(folder.path());
  EXPECT_THAT(text, StartsWith("unsupported: libnccl.so.2 cannot be opened"));
  EXPECT_THAT(text, HasSubstr("install NCCL"));
}

TEST(NcclLibrary, ReportsThatItIsTooOld) {
  const test::TemporaryDirectory folder;
  std::filesystem::create_symlink(OLD_LIBRARY, folder / "libnccl.so.2");
  EXPECT_THAT(report(folder.path()),
              HasSubstr("libnccl.so.2 has no ncclGetLastError: Tally needs NCCL 2.13"));
}

TEST(NcclLibrary, OpensTheOneOfTheProcess) {
  EXPECT_THAT(report(NCCL_FOLDER), HasSubstr("a library"));
}

TEST(NcclLibrary, FailuresNameTheCallAndTheCode) {
  const auto opened = system_library();
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(*system_library(), *opened);
  const Library& library = **opened;
  EXPECT_TRUE(outcome(library, nullptr, "ncclReduce", Code::kSuccess));
  const Error error = failure(library, nullptr, "ncclReduce", Code::kInvalidArgument);
  EXPECT_EQ(error.status, Status::kInternal);
  EXPECT_EQ(error.message, "ncclReduce: invalid argument (4)");
}

}  // namespace
}  // namespace tally::nccl
