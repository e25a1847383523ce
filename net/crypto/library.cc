#include "net/crypto/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace tally::net::openssl {
namespace {

constexpr const char* kCryptoName = "libcrypto.so.3";
constexpr const char* kSslName = "libssl.so.3";

Error cannot_open(const char* name) {
  const char* reason = ::dlerror();
  return {Status::kUnsupported,
          fmt::format("{} cannot be opened ({}): TLS and tokens need OpenSSL 3; install libssl3",
                      name, reason != nullptr ? reason : "no reason given")};
}

// Returns the name of the first function that the library does not export, or null.
template <typename Function>
void find(void* handle, const char* name, Function& function, const char*& missing) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (function == nullptr && missing == nullptr) missing = name;
}

Result<Library> load() {
  void* crypto = ::dlopen(kCryptoName, RTLD_NOW | RTLD_LOCAL);
  if (crypto == nullptr) return cannot_open(kCryptoName);
  void* ssl = ::dlopen(kSslName, RTLD_NOW | RTLD_LOCAL);
  if (ssl == nullptr) return cannot_open(kSslName);
  Library library;
  const char* missing = nullptr;
#define TALLY_FIND(name) find(crypto, #name, library.name, missing);
  TALLY_LIBCRYPTO_FUNCTIONS(TALLY_FIND)
#undef TALLY_FIND
#define TALLY_FIND(name) find(ssl, #name, library.name, missing);
  TALLY_LIBSSL_FUNCTIONS(TALLY_FIND)
#undef TALLY_FIND
  if (missing != nullptr) {
    return Error{Status::kUnsupported,
                 fmt::format("the installed OpenSSL has no {}: Tally needs OpenSSL 3", missing)};
  }
  return library;
}

}  // namespace

std::string Library::take_error() const {
  const unsigned long code = ERR_peek_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  std::string text = reason != nullptr ? reason : "";
  ERR_clear_error();
  return text;
}

Result<const Library*> library() {
  static const Result<Library> kLoaded = load();
  if (!kLoaded) return kLoaded.error();
  return &kLoaded.value();
}

}  // namespace tally::net::openssl
