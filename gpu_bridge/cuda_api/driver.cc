#include "gpu_bridge/cuda_api/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>
#include <utility>

namespace tally::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

// cuGetProcAddress_v2: the function that has the semantics of a version of CUDA.
using Finder = Code (*)(const char* function, void** address, int version, unsigned long long flags,
                        unsigned* status);

Error unsupported(std::string why) {
  return Error{Status::kUnsupported, std::move(why)};
}

// The name of the first function that is missing; null when all are there.
const char* fill(Driver& driver, Finder finder) {
  const char* missing = nullptr;
  const auto find = [&](auto& member, const char* name) {
    void* address = nullptr;
    unsigned status = 0;
    const Code code = finder(name, &address, kVersion, 0, &status);
    if (code != Code::kSuccess || address == nullptr) {
      if (missing == nullptr) missing = name;
      return;
    }
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(address);
  };
#define TALLY_CUDA_FIND(member, function, parameters) find(driver.member, #function);
  TALLY_CUDA_FUNCTIONS(TALLY_CUDA_FIND)
#undef TALLY_CUDA_FIND
  return missing;
}

Result<const Driver*> open() {
  static Driver driver;  // the functions of the library, which stays open
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return unsupported(fmt::format(
        "{} cannot be opened ({}): install NVIDIA's driver, and in a container its libraries",
        kLibrary, why != nullptr ? why : "no reason given"));
  }
  const auto finder = reinterpret_cast<Finder>(::dlsym(library, "cuGetProcAddress_v2"));
  const char* const missing = finder == nullptr ? "cuGetProcAddress_v2" : fill(driver, finder);
  if (missing != nullptr) {
    return unsupported(fmt::format("{} has no {}: Tally needs the driver of CUDA 12.0 or later",
                                   kLibrary, missing));
  }
  if (const Code code = driver.init(0); code != Code::kSuccess) {
    return unsupported(failure(driver, "cuInit", code).message +
                       ": nvidia-smi shows the devices that this machine or container has");
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
  // The name and the text of a code that the driver does not know are null.
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
