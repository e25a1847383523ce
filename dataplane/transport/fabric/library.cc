#include "dataplane/transport/fabric/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace tally::transport::fabric {
namespace {

constexpr const char* kName = "libfabric.so.1";

template <typename Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  return function != nullptr;
}

Result<Library> load() {
  const Undisturbed undisturbed;
  void* handle = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Error{Status::kUnsupported,
                 fmt::format("libfabric cannot be opened ({}): install libfabric1", ::dlerror())};
  }
  Library library;
  const bool complete =
      find(handle, "fi_getinfo", library.getinfo) &&
      find(handle, "fi_freeinfo", library.freeinfo) &&
      find(handle, "fi_dupinfo", library.dupinfo) && find(handle, "fi_fabric", library.fabric) &&
      find(handle, "fi_strerror", library.strerror) && find(handle, "fi_version", library.version);
  if (!complete) {
    return Error{Status::kUnsupported, fmt::format("{} is not libfabric", kName)};
  }
  return library;
}

}  // namespace

Undisturbed::Undisturbed() : actions_{}, affinity_{} {
  for (int i = 1; i < kSignals; ++i)
    ::sigaction(i, nullptr, &actions_[static_cast<std::size_t>(i)]);
  ::sched_getaffinity(0, sizeof affinity_, &affinity_);
}

Undisturbed::~Undisturbed() {
  for (int i = 1; i < kSignals; ++i)
    ::sigaction(i, &actions_[static_cast<std::size_t>(i)], nullptr);
  ::sched_setaffinity(0, sizeof affinity_, &affinity_);
}

std::string Library::text(long error) const {
  return strerror(static_cast<int>(std::labs(error)));
}

Result<const Library*> library() {
  static const Result<Library> loaded = load();
  if (!loaded) return loaded.error();
  return &loaded.value();
}

void take_messages_one_by_one() {
  // The provider's name in 1.17, and from 1.18 on. Bytes that it reads ahead may hold several
  // messages.
  [[maybe_unused]] static const bool done = ::setenv("FI_NET_PREFETCH_RBUF_SIZE", "0", 1) == 0 &&
                                            ::setenv("FI_TCP_PREFETCH_RBUF_SIZE", "0", 1) == 0;
}

}  // namespace tally::transport::fabric
