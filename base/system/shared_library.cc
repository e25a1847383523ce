#include "base/system/shared_library.h"

#include <fmt/format.h>

namespace tally {

Result<SharedLibrary> SharedLibrary::open(std::string name, std::string_view remedy) {
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return SharedLibrary(std::move(name), handle);
  const char* const reason = ::dlerror();
  return Error{Status::kUnsupported,
               fmt::format("{} cannot be opened ({}): {}", name,
                           reason != nullptr ? reason : "no reason given", remedy)};
}

Outcome SharedLibrary::check_complete(std::string_view remedy) const {
  if (missing_.empty()) return Unit{};
  return Error{Status::kUnsupported, fmt::format("{} has no {}: {}", name_, missing_, remedy)};
}

}  // namespace tally
