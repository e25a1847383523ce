#include "gpu_bridge/cuda_api/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/cuda/cuda_process.h"
#include "tests/support/program_output.h"
#include "tests/support/temporary_directory.h"

namespace tally::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What system_driver() reports in a process that finds libcuda.so.1 in this folder, with these
// settings of tests/support/cuda.
std::string report(const std::string& folder, const std::string& settings = "") {
  return test::output_with_libraries(DRIVER_REPORT, folder, "TALLY_TEST_CUDA='" + settings + "'");
}

TEST(CudaDriver, ReportsThatThereIsNone) {
  const test::TemporaryDirectory folder;
  // On a machine that has a driver, the broken one comes first.
  std::ofstream(folder / "libcuda.so.1") << "not a library";
  const std::string text = report(folder.path());
  EXPECT_THAT(text, StartsWith("unsupported: libcuda.so.1 cannot be opened"));
  EXPECT_THAT(text, HasSubstr("install NVIDIA's driver"));
}

TEST(CudaDriver, ReportsThatItIsTooOld) {
  const test::TemporaryDirectory folder;
  std::filesystem::create_symlink(OLD_DRIVER, folder / "libcuda.so.1");
  EXPECT_THAT(report(folder.path()),
              HasSubstr("libcuda.so.1 has no cuGetProcAddress_v2: Tally needs the driver of CUDA "
                        "12.0 or later"));
  EXPECT_THAT(report(CUDA_FOLDER, "missing=cuStreamWaitValue32"),
              HasSubstr("libcuda.so.1 has no cuStreamWaitValue32: Tally needs"));
}

TEST(CudaDriver, ReportsWhyItDoesNotStart) {
  EXPECT_THAT(report(CUDA_FOLDER, "devices=0"),
              HasSubstr("unsupported: cuInit: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is "
                        "detected): nvidia-smi shows"));
  EXPECT_THAT(report(CUDA_FOLDER, "init=803"), HasSubstr("cuInit: unknown error 803"));
}

TEST(CudaDriver, OpensOnceForTheProcess) {
  EXPECT_THAT(report(CUDA_FOLDER), HasSubstr("a driver"));
  const auto driver = system_driver();
  ASSERT_TRUE(driver) << driver.error().message;
  EXPECT_EQ(*system_driver(), *driver);
}

TEST(CudaDriver, FailuresNameTheCallAndTheCode) {
  const Driver& driver = **system_driver();
  EXPECT_TRUE(outcome(driver, "cuMemAlloc", Code::kSuccess));
  const auto memory = outcome(driver, "cuMemAlloc", Code::kOutOfMemory);
  EXPECT_EQ(memory.status(), Status::kNoMemory);
  EXPECT_EQ(memory.error().message, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  EXPECT_EQ(failure(driver, "x", Code::kNotSupported).status, Status::kUnsupported);
  const Error unknown = failure(driver, "cuInit", static_cast<Code>(12345));
  EXPECT_EQ(unknown.status, Status::kInternal);
  EXPECT_EQ(unknown.message, "cuInit: unknown error 12345");
}

TEST(CudaDriver, AContextIsCurrentInItsScope) {
  test::cuda::reset();
  const Driver& driver = **system_driver();
  Context context = nullptr, current = nullptr;
  ASSERT_EQ(driver.primary_ctx_retain(&context, 0), Code::kSuccess);
  {
    const CurrentContext scope(driver, context);
    driver.ctx_get_current(&current);
    EXPECT_EQ(current, context);
  }
  driver.ctx_get_current(&current);
  EXPECT_EQ(current, nullptr);
  EXPECT_EQ(driver.primary_ctx_release(0), Code::kSuccess);
  EXPECT_THAT(test::cuda::misuses(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace tally::cuda
