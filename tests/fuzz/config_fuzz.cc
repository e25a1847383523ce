// A configuration file: refused with a reason, or understood; and what is shown of it gives the
// same again.
#include <string>

#include "control/config/config.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using tally::fuzz::require;
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto config = tally::control::parse_config(text, "fuzz.toml", {});
  if (!config) {
    require(!config.error().message.empty(), "a refusal says why");
    return 0;
  }
  const std::string shown = tally::control::to_toml(*config);
  const auto again = tally::control::parse_config(shown, "shown.toml", {});
  if (!config->jobs.empty()) return 0;  // tokens are not shown
  require(again.ok(), "what is shown is a configuration");
  require(tally::control::to_toml(*again) == shown, "and the same one");
  return 0;
}
