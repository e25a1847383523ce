// A file of machines: refused with a reason, or understood; then what is written of it reads as the
// same, and its networks are possible or refused with a reason.
#include <string>

#include "control/plan/json/machine_network.h"
#include "control/plan/model/validate.h"
#include "tests/fuzz/input.h"

namespace {

using namespace tally::plan;
using tally::fuzz::require;

void try_network(const tally::Result<Network>& network) {
  if (!network) return require(!network.error().message.empty(), "a refusal says why");
  require(validate(*network).ok(), "a network is possible");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto file = read_machines(text);
  if (!file) {
    require(!file.error().message.empty(), "a refusal says why");
    return 0;
  }
  const std::string written = write_machines(*file);
  const auto again = read_machines(written);
  require(again.ok(), "what is written is a file of machines");
  require(write_machines(*again) == written, "and the same one");
  try_network(network_of(*file));
  try_network(read_network_or_machines(text));
  return 0;
}
