#include "net/crypto/library.h"

#include "base/system/shared_library.h"

namespace tally::net::openssl {
namespace {

constexpr const char* kRemedy = "TLS and tokens need OpenSSL 3; install libssl3";

Result<Library> load() {
  auto crypto = SharedLibrary::open("libcrypto.so.3", kRemedy);
  if (!crypto) return crypto.error();
  auto ssl = SharedLibrary::open("libssl.so.3", kRemedy);
  if (!ssl) return ssl.error();
  Library library;
#define TALLY_FIND(name) crypto->find(#name, library.name);
  TALLY_LIBCRYPTO_FUNCTIONS(TALLY_FIND)
#undef TALLY_FIND
#define TALLY_FIND(name) ssl->find(#name, library.name);
  TALLY_LIBSSL_FUNCTIONS(TALLY_FIND)
#undef TALLY_FIND
  for (SharedLibrary* one : {&*crypto, &*ssl}) {
    if (const Outcome complete = one->check_complete(kRemedy); !complete) return complete.error();
    one->keep_open();
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
