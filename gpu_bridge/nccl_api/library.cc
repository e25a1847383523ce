#include "gpu_bridge/nccl_api/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>
#include <utility>

namespace tally::nccl {
namespace {

constexpr const char* kLibraryName = "libnccl.so.2";

Error no_library(std::string why) {
  return Error{Status::kUnsupported, std::move(why)};
}

// The name of the first function that is missing; null when all are there.
const char* fill(Library& library, void* file) {
  const char* missing = nullptr;
  const auto find = [&](auto& member, const char* name) {
    void* const address = ::dlsym(file, name);
    if (address == nullptr && missing == nullptr) missing = name;
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(address);
  };
#define TALLY_NCCL_FIND(type, member, function, parameters) find(library.member, #function);
  TALLY_NCCL_FUNCTIONS(TALLY_NCCL_FIND)
#undef TALLY_NCCL_FIND
  return missing;
}

Result<const Library*> open_library() {
  static Library library;  // the functions of the library, which stays open
  void* const file = ::dlopen(kLibraryName, RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) {
    const char* const why = ::dlerror();
    return no_library(fmt::format("{} cannot be opened ({}): install NCCL, or load PyTorch first",
                                  kLibraryName, why != nullptr ? why : "no reason given"));
  }
  if (const char* const missing = fill(library, file); missing != nullptr) {
    return no_library(
        fmt::format("{} has no {}: Tally needs NCCL 2.13 or later", kLibraryName, missing));
  }
  int version = 0;
  const Code code = library.get_version(&version);
  if (code != Code::kSuccess) return failure(library, nullptr, "ncclGetVersion", code);
  if (version < kOldestVersion) {
    return no_library(fmt::format("{} has version {}: Tally needs NCCL 2.13 ({}) or later",
                                  kLibraryName, version, kOldestVersion));
  }
  return &library;
}

}  // namespace

Result<const Library*> system_library() {
  static const Result<const Library*> library = open_library();
  return library;
}

Error failure(const Library& library, Comm comm, const char* call, Code code) {
  const char* const text = library.get_error_string(code);
  std::string message = fmt::format("{}: {} ({})", call, text != nullptr ? text : "unknown error",
                                    static_cast<unsigned>(code));
  const char* const last = comm != nullptr ? library.get_last_error(comm) : nullptr;
  if (last != nullptr && *last != '\0') message += fmt::format(": {}", last);
  return Error{Status::kInternal, std::move(message)};
}

Outcome outcome(const Library& library, Comm comm, const char* call, Code code) {
  if (code == Code::kSuccess) return Unit{};
  return failure(library, comm, call, code);
}

}  // namespace tally::nccl
