// Libraries that the program opens when it runs, so that it also loads on machines without them.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace tally {

// An open shared library, and the first of the wanted functions that it does not export. Move-only.
// The destructor closes the library, unless keep_open() was called. A library may start threads and
// register exit handlers, so keep_open() must come before the first call of a function.
class SharedLibrary {
 public:
  // Opens the library by its name or path; a copy that the process has loaded already is used.
  // kUnsupported: "libx.so.1 cannot be opened (REASON): REMEDY".
  static Result<SharedLibrary> open(std::string name, std::string_view remedy);

  // Sets `function` to the function that the library exports under this name; null: it has none.
  template <typename Function>
  void find(const char* name, Function& function) {
    set(name, ::dlsym(handle_.get(), name), function);
  }
  // The same for an address that a function of the library gave; null: it has none.
  template <typename Function>
  void set(const char* name, void* address, Function& function) {
    function = reinterpret_cast<Function>(address);
    if (address == nullptr && missing_.empty()) missing_ = name;
  }
  // kUnsupported when a function is missing so far: "libx.so.1 has no FUNCTION: REMEDY".
  Outcome check_complete(std::string_view remedy) const;

  // The library stays open until the process ends.
  void keep_open() { handle_.get_deleter().keeps_open = true; }

 private:
  struct Close {
    bool keeps_open;
    void operator()(void* handle) const {
      if (!keeps_open) ::dlclose(handle);
    }
  };

  SharedLibrary(std::string name, void* handle)
      : name_(std::move(name)), handle_(handle, Close{false}) {}

  std::string name_;
  std::string missing_;  // empty: none so far
  std::unique_ptr<void, Close> handle_;
};

}  // namespace tally
