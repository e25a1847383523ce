// For driver_test.cc: prints what system_driver() finds. A process of its own, because
// system_driver() opens the library once.
#include <cstdio>
#include <string>

#include "gpu_bridge/cuda_api/driver.h"

int main() {
  const auto driver = tally::cuda::system_driver();
  std::printf("%s: %s\n", std::string(tally::status_name(driver.status())).c_str(),
              driver ? "a driver" : driver.error().message.c_str());
}
