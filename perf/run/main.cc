#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <exception>
#include <iostream>
#include <optional>
#include <string_view>
#include <vector>

#include "control/sim/command/sim_command.h"
#include "perf/options/options.h"
#include "perf/run/conductor.h"
#include "perf/run/joiner.h"
#include "perf/run/worker.h"

namespace tally::perf {
namespace {

std::optional<int> descriptor(const char* text) {
  int fd = -1;
  const auto parsed = std::from_chars(text, text + std::strlen(text), fd);
  return parsed.ec == std::errc{} ? std::optional(fd) : std::nullopt;
}

int run(int argc, char** argv) {
  // The command line of a started worker. Users do not call it, so it is not among the flags.
  if (argc == 4 && std::string_view(argv[1]) == "worker") {
    const auto channel = descriptor(argv[2]);
    const auto options = descriptor(argv[3]);
    if (!channel || !options) return kExitUsage;
    return run_started_worker(UniqueFd(*channel), UniqueFd(*options));
  }
  if (argc >= 2 && std::string_view(argv[1]) == "sim") return simulator::run_sim(argc, argv);
  auto parsed = parse_options(argc, argv);
  if (const int* status = std::get_if<int>(&parsed)) return *status;
  Options options = std::get<Options>(std::move(parsed));
  if (options.json == "-") options.quiet = true;  // only the document goes to stdout
  if (!options.join.empty()) {
    return Joiner(std::move(options), std::vector<std::string>(argv + 1, argv + argc)).run();
  }
  if (options.spawn == 0 && options.serve.empty()) return run_lone_worker(std::move(options));
  for (std::uint32_t rank = 0; rank < options.spawn; ++rank) options.ranks_here.push_back(rank);
  if (options.spawn != 0) options.ranks = options.spawn;
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
