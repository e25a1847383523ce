#include "base/isal.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace tally {

Result<void*> isal_function(const char* name) {
  constexpr const char* kName = "libisal.so.2";
  void* handle = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Error{Status::kUnsupported,
                 fmt::format("ISA-L cannot be opened ({}): install libisal2", ::dlerror())};
  }
  void* function = ::dlsym(handle, name);
  if (function != nullptr) return function;
  return Error{Status::kUnsupported, fmt::format("{} has no {}", kName, name)};
}

}  // namespace tally
