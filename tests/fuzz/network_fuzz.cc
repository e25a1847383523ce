// A network file: refused with a reason, or understood; then the network is possible, and what is
// written of it reads as the same.
#include <string>

#include "control/plan/json/network_json.h"
#include "control/plan/model/validate.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using tally::fuzz::require;
  const auto network =
      tally::plan::read_network(std::string_view(reinterpret_cast<const char*>(data), bytes));
  if (!network) {
    require(!network.error().message.empty(), "a refusal says why");
    return 0;
  }
  require(tally::plan::validate(*network).ok(), "what is understood is possible");
  const std::string written = tally::plan::write_network(*network);
  const auto again = tally::plan::read_network(written);
  require(again.ok(), "what is written is a network");
  require(tally::plan::write_network(*again) == written, "and the same one");
  return 0;
}
