#include "gpu_bridge/nccl_api/library.h"

#include <fmt/format.h>

#include <utility>

#include "base/system/shared_library.h"

namespace tally::nccl {
namespace {

constexpr const char* kLibraryName = "libnccl.so.2";

Result<const Library*> open_library() {
  static Library library;
  auto file = SharedLibrary::open(kLibraryName, "install NCCL, or load PyTorch first");
  if (!file) return file.error();
#define TALLY_NCCL_FIND(type, member, function, parameters) file->find(#function, library.member);
  TALLY_NCCL_FUNCTIONS(TALLY_NCCL_FIND)
#undef TALLY_NCCL_FIND
  const Outcome complete = file->check_complete("Tally needs NCCL 2.13 or later");
  if (!complete) return complete.error();
  file->keep_open();
  int version = 0;
  const Code code = library.get_version(&version);
  if (code != Code::kSuccess) return failure(library, nullptr, "ncclGetVersion", code);
  if (version < kOldestVersion) {
    return Error{Status::kUnsupported,
                 fmt::format("{} has version {}: Tally needs NCCL 2.13 ({}) or later", kLibraryName,
                             version, kOldestVersion)};
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
