#include "gpu_bridge/nccl_api/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace tally::nccl {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What system_library() reports in a process that finds libnccl.so.2 in this folder.
std::string report(const std::string& folder) {
  const std::string command = "LD_LIBRARY_PATH='" + folder +
                              "':'" CUDA_FOLDER "':\"$LD_LIBRARY_PATH\" '" LIBRARY_REPORT "'";
  std::FILE* const output = ::popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(output); c != EOF; c = std::fgetc(output)) text += static_cast<char>(c);
  EXPECT_EQ(::pclose(output), 0);
  return text;
}

// A folder with a libnccl.so.2.
class LibraryFolder {
 public:
  LibraryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "tally-nccl-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~LibraryFolder() { std::filesystem::remove_all(path_); }
  LibraryFolder(const LibraryFolder&) = delete;
  LibraryFolder& operator=(const LibraryFolder&) = delete;
  std::filesystem::path library() const { return path_ / "libnccl.so.2"; }
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(NcclLibrary, ReportsThatThereIsNone) {
  const LibraryFolder folder;
  // On a machine that has NCCL, the broken one comes first.
  std::ofstream(folder.library()) << "not a library";
  const std::string text = report(folder.path());
  EXPECT_THAT(text, StartsWith("unsupported: libnccl.so.2 cannot be opened"));
  EXPECT_THAT(text, HasSubstr("install NCCL"));
}

TEST(NcclLibrary, ReportsThatItIsTooOld) {
  const LibraryFolder folder;
  std::filesystem::create_symlink(OLD_LIBRARY, folder.library());
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
