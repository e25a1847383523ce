#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <exception>
#include <iostream>
#include <string_view>

#include "perf/conductor.h"
#include "perf/options.h"
#include "perf/worker.h"

namespace tally::perf {
namespace {

int run(int argc, char** argv) {
  // What a spawned worker is called with; not for people, so not among the flags.
  if (argc == 3 && std::string_view(argv[1]) == "worker") {
    int fd = -1;
    const auto parsed = std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), fd);
    return parsed.ec == std::errc{} ? run_spawned_worker(UniqueFd(fd)) : kExitUsage;
  }
  auto parsed = parse_options(argc, argv);
  if (const int* status = std::get_if<int>(&parsed)) return *status;
  Options options = std::get<Options>(std::move(parsed));
  if (options.json == "-") options.quiet = true;  // stdout is the document's
  if (options.spawn == 0) return run_lone_worker(std::move(options));
  options.ranks = options.spawn;
  return Conductor(std::move(options)).run();
}

}  // namespace
}  // namespace tally::perf

int main(int argc, char** argv) {
  try {
    return tally::perf::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "tally-perf: " << error.what() << '\n';
    return tally::perf::kExitFailed;
  }
}
