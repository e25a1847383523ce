// For library_test.cc: prints what system_library() finds. A process of its own, because
// system_library() opens the library once.
#include <cstdio>
#include <string>

#include "gpu_bridge/nccl_api/library.h"

int main() {
  const auto library = tally::nccl::system_library();
  std::printf("%s: %s\n", std::string(tally::status_name(library.status())).c_str(),
              library ? "a library" : library.error().message.c_str());
}
