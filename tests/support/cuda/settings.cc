#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "tests/support/cuda/machine.h"

namespace tally::test::cuda {
namespace {

constexpr const char* kVariable = "TALLY_TEST_CUDA";

[[noreturn]] void wrong_setting(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", kVariable, what.c_str());
  std::abort();
}

std::uint64_t number_of(const std::string& name, const std::string& text) {
  char* end = nullptr;
  const auto value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || text[0] == '-' || *end != '\0') {
    wrong_setting(name + "=" + text + " is not a number");
  }
  return value;
}

// "bandwidth" sets both directions. Yes and no are 1 and 0.
void set(Settings& settings, const std::string& name, const std::string& text) {
  if (name == "misuse") {
    if (text != "abort" && text != "report") wrong_setting("misuse=" + text + ": abort or report");
    settings.abort_on_misuse = text == "abort";
    return;
  }
  if (name == "missing") {
    settings.missing_function = text;
    return;
  }
  const std::uint64_t value = number_of(name, text);
  const std::map<std::string, std::function<void()>> setters = {
      {"devices", [&] { settings.devices = static_cast<int>(value); }},
      {"queues", [&] { settings.queues = static_cast<unsigned>(value); }},
      {"bandwidth", [&] { settings.bandwidth_down = settings.bandwidth_up = value; }},
      {"bandwidth_down", [&] { settings.bandwidth_down = value; }},
      {"bandwidth_up", [&] { settings.bandwidth_up = value; }},
      {"bandwidth_between", [&] { settings.bandwidth_between = value; }},
      {"seed", [&] { settings.seed = value; }},
      {"delay_us", [&] { settings.longest_delay = std::chrono::microseconds(value); }},
      {"memory", [&] { settings.memory_bytes = value; }},
      {"reuses_addresses", [&] { settings.reuses_addresses = value != 0; }},
      {"allocation_synchronizes", [&] { settings.allocation_synchronizes = value != 0; }},
      {"registration_synchronizes", [&] { settings.registration_synchronizes = value != 0; }},
      {"queue_depth", [&] { settings.queue_depth = value; }},
      {"dma_buf", [&] { settings.dma_buf = value != 0; }},
      {"memory_operations", [&] { settings.stream_memory_operations = value != 0; }},
      {"captures_memory_operations",
       [&] { settings.captures_stream_memory_operations = value != 0; }},
      {"host_pointers", [&] { settings.uses_host_pointers = value != 0; }},
      {"writes_ordering", [&] { settings.rdma_writes_ordering = static_cast<int>(value); }},
      {"init", [&] { settings.init = static_cast<Code>(value); }},
  };
  const auto found = setters.find(name);
  if (found == setters.end()) {
    std::string known = "misuse, missing";
    for (const auto& [one, setter] : setters) known += ", " + one;
    wrong_setting("no setting " + name + "; there are " + known);
  }
  found->second();
}

}  // namespace

Settings settings_of_environment() {
  Settings settings;
  const char* const variable = std::getenv(kVariable);
  std::string rest = variable != nullptr ? variable : "";
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string one = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos) wrong_setting(one + " is not name=value");
    set(settings, one.substr(0, equals), one.substr(equals + 1));
  }
  if (settings.queues == 0) wrong_setting("queues=0: a device has at least one");
  return settings;
}

}  // namespace tally::test::cuda
