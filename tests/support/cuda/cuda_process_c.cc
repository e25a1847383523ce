// Control functions for processes that are not in C++: the tests of the Python module call them by
// ctypes. cuda_process.h explains them.
#include <string>

#include "tests/support/cuda/machine.h"

namespace tally::test::cuda {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

// The texts of the items, with commas between.
template <typename Items, typename TextOf>
std::string joined(const Items& items, TextOf text_of_item) {
  std::string result;
  for (const auto& item : items) result += (result.empty() ? "" : ", ") + text_of_item(item);
  return result;
}

std::string report() {
  const Counters now = counters();
  const std::map<std::string, std::uint64_t> numbers = {
      {"host_synchronizations", now.host_synchronizations},
      {"pageable_copies", now.pageable_copies},
      {"operations", now.operations},
      {"bytes_down", now.bytes_down},
      {"bytes_up", now.bytes_up},
      {"bytes_between", now.bytes_between},
      {"allocations", now.allocations},
      {"live_allocations", now.live_allocations},
      {"live_bytes", now.live_bytes},
      {"live_registrations", now.live_registrations},
      {"live_streams", now.live_streams},
      {"live_events", now.live_events},
      {"live_graphs", now.live_graphs},
  };
  const auto number = [](const auto& one) {
    return quoted(one.first) + ": " + std::to_string(one.second);
  };
  const auto wait = [](const Waiting& one) { return quoted(text_of(one.stream) + " " + one.on); };
  return "{" + joined(numbers, number) + ", \"calls\": {" + joined(now.calls, number) +
         "}, \"misuses\": [" + joined(misuses(), quoted) + "], \"waiting\": [" +
         joined(waiting(), wait) + "]}";
}

}  // namespace

extern "C" {

// Counters, calls, misuse and waiting streams as JSON. Valid until the thread's next call.
TALLY_TEST_EXPORT const char* tally_test_cuda_report() {
  thread_local std::string text;
  text = report();
  return text.c_str();
}

TALLY_TEST_EXPORT void* tally_test_cuda_host_view(unsigned long long pointer) {
  return host_view(pointer);
}

TALLY_TEST_EXPORT void tally_test_cuda_fail(const char* function, unsigned long long nth,
                                            unsigned code) {
  fail(function, nth, static_cast<Code>(code));
}

TALLY_TEST_EXPORT void tally_test_cuda_break_context(int device, unsigned code) {
  break_context(device, static_cast<Code>(code));
}

TALLY_TEST_EXPORT void tally_test_cuda_release(void* stream) {
  release(static_cast<Stream>(stream));
}

}  // extern "C"
}  // namespace tally::test::cuda
