#include "control/coordinator/store/etcd/curl_library.h"

#include "base/system/shared_library.h"

namespace tally::control::etcd {
namespace {

constexpr const char* kLibraryName = "libcurl.so.4";
constexpr const char* kRemedy = "cluster.store needs libcurl 7.85 or later; install libcurl4";

Result<CurlLibrary> load() {
  auto file = SharedLibrary::open(kLibraryName, kRemedy);
  if (!file) return file.error();
  CurlLibrary library;
#define TALLY_FIND(name) file->find(#name, library.name);
  TALLY_CURL_FUNCTIONS(TALLY_FIND)
#undef TALLY_FIND
  if (const Outcome complete = file->check_complete(kRemedy); !complete) return complete.error();
  file->keep_open();
  if (library.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return Error{Status::kUnsupported, "libcurl cannot be initialized"};
  return library;
}

}  // namespace

Result<const CurlLibrary*> curl_library() {
  static const Result<CurlLibrary> kLoaded = load();
  if (!kLoaded) return kLoaded.error();
  return &kLoaded.value();
}

}  // namespace tally::control::etcd
