#include "dataplane/transport/fabric/library.h"

#include <cstdlib>

#include "base/system/shared_library.h"

namespace tally::transport::fabric {
namespace {

constexpr const char* kRemedy = "install libfabric1";

Result<Library> load() {
  const Undisturbed undisturbed;
  auto file = SharedLibrary::open("libfabric.so.1", kRemedy);
  if (!file) return file.error();
  Library library;
  file->find("fi_getinfo", library.getinfo);
  file->find("fi_freeinfo", library.freeinfo);
  file->find("fi_dupinfo", library.dupinfo);
  file->find("fi_fabric", library.fabric);
  file->find("fi_strerror", library.strerror);
  file->find("fi_version", library.version);
  if (const Outcome complete = file->check_complete(kRemedy); !complete) return complete.error();
  file->keep_open();
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
