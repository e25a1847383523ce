// The file of a model's tensors: refused with a reason, or understood; then it has its elements.
#include <string>

#include "control/cli/plan/workload.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using tally::fuzz::require;
  const auto workload =
      tally::control::parse_workload(std::string_view(reinterpret_cast<const char*>(data), bytes));
  if (!workload) {
    require(!workload.error().message.empty(), "a refusal says why");
    return 0;
  }
  require(!workload->tensors.empty(), "there is a tensor");
  for (const auto& tensor : workload->tensors) require(tensor.count > 0, "with elements");
  return 0;
}
