#include "control/cli/plan/figures.h"

#include <fmt/format.h>

#include "base/text/speed.h"

namespace tally::control {

std::string count_of(std::size_t count, std::string_view what) {
  if (count == 1) return fmt::format("1 {}", what);
  return fmt::format("{} {}{}", count, what, what.ends_with('h') ? "es" : "s");
}

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.4g} ms", seconds * 1e3) : fmt::format("{:.4g} s", seconds);
}

std::string tau_text(double tau) {
  return tau > 0 ? fmt::format("{:.4g} ns per byte ({})", tau * 1e9, speed_text(1 / tau))
                 : "0: nothing travels";
}

std::string objective_note(std::string_view objective) {
  if (objective == "allreduce") return {};
  return "times are those of one reduce-scatter or all-gather, whichever takes longer\n";
}

}  // namespace tally::control
