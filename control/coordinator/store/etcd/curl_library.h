// Opens libcurl at run time, so that tallyd also starts on machines without it. Only a node with
// `cluster.store` needs it.
#pragma once

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "base/result.h"

namespace tally::control::etcd {

// The functions that Tally uses.
// clang-format off
#define TALLY_CURL_FUNCTIONS(F) \
  F(curl_easy_cleanup) F(curl_easy_getinfo) F(curl_easy_init) F(curl_easy_setopt) \
  F(curl_easy_strerror) F(curl_global_init) F(curl_multi_add_handle) F(curl_multi_cleanup) \
  F(curl_multi_info_read) F(curl_multi_init) F(curl_multi_perform) F(curl_multi_poll) \
  F(curl_multi_remove_handle) F(curl_multi_wakeup) F(curl_slist_append) F(curl_slist_free_all)
// clang-format on

struct CurlLibrary {
#define TALLY_MEMBER(name) decltype(&::name) name = nullptr;
  TALLY_CURL_FUNCTIONS(TALLY_MEMBER)
#undef TALLY_MEMBER
};

// The system's libcurl. It is opened once and never closed. Any thread. Fails with kUnsupported
// when libcurl 7.85 or later is not installed; the message says what to install.
Result<const CurlLibrary*> curl_library();

}  // namespace tally::control::etcd
