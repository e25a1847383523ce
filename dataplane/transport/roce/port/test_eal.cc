#include "dataplane/transport/roce/port/test_eal.h"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace tally::transport::roce {
namespace {

bool start() {
  std::vector<std::string> arguments = {"test",
                                        "-l",
                                        "0",
                                        "--no-huge",
                                        "-m",
                                        "256",
                                        "--no-pci",
                                        "--no-telemetry",
                                        "--no-shconf",
                                        "--iova-mode",
                                        "va",
                                        "--file-prefix",
                                        fmt::format("roce-{}", ::getpid()),
                                        "--log-level",
                                        "error"};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  if (rte_eal_init(static_cast<int>(arguments.size()), argv.data()) < 0) return false;
  if (const char* directory = rte_eal_get_runtime_dir()) ::rmdir(directory);
  return true;
}

}  // namespace

bool start_test_eal() {
  static const bool is_started = start();
  return is_started;
}

std::span<std::byte> test_memory() {
  static void* const memory = rte_malloc(nullptr, kTestMemory, 0);
  return {static_cast<std::byte*>(memory), memory == nullptr ? 0 : kTestMemory};
}

}  // namespace tally::transport::roce
