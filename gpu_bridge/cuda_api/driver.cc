#include "gpu_bridge/cuda_api/driver.h"

#include <fmt/format.h>

#include "base/system/shared_library.h"

namespace tally::cuda {
namespace {

// cuGetProcAddress_v2: the function that has the semantics of a version of CUDA.
using Finder = Code (*)(const char* function, void** address, int version, unsigned long long flags,
                        unsigned* status);

// Null: the driver has no such function.
void* address_of(Finder finder, const char* name) {
  void* address = nullptr;
  unsigned status = 0;
  return finder(name, &address, kVersion, 0, &status) == Code::kSuccess ? address : nullptr;
}

Result<const Driver*> open() {
  static Driver driver;
  auto library = SharedLibrary::open("libcuda.so.1",
                                     "install NVIDIA's driver, and in a container its libraries");
  if (!library) return library.error();
  Finder finder = nullptr;
  library->find("cuGetProcAddress_v2", finder);
  if (finder != nullptr) {
    library->keep_open();
#define TALLY_CUDA_FIND(member, function, parameters) \
  library->set(#function, address_of(finder, #function), driver.member);
    TALLY_CUDA_FUNCTIONS(TALLY_CUDA_FIND)
#undef TALLY_CUDA_FIND
  }
  const Outcome complete = library->check_complete("Tally needs the driver of CUDA 12.0 or later");
  if (!complete) return complete.error();
  if (const Code code = driver.init(0); code != Code::kSuccess) {
    return Error{Status::kUnsupported,
                 failure(driver, "cuInit", code).message +
                     ": nvidia-smi shows the devices that this machine or container has"};
  }
  return &driver;
}

}  // namespace

Result<const Driver*> system_driver() {
  static const Result<const Driver*> driver = open();
  return driver;
}

Error failure(const Driver& driver, const char* call, Code code) {
  const char* name = nullptr;
  const char* text = nullptr;
  // For an unknown code the driver sets the name and the text to null.
  driver.get_error_name(code, &name);
  driver.get_error_string(code, &text);
  const Status status = code == Code::kOutOfMemory    ? Status::kNoMemory
                        : code == Code::kNotSupported ? Status::kUnsupported
                                                      : Status::kInternal;
  if (name == nullptr || text == nullptr) {
    return Error{status, fmt::format("{}: unknown error {}", call, static_cast<unsigned>(code))};
  }
  return Error{status, fmt::format("{}: {} ({})", call, name, text)};
}

Outcome outcome(const Driver& driver, const char* call, Code code) {
  if (code == Code::kSuccess) return Unit{};
  return failure(driver, call, code);
}

}  // namespace tally::cuda
