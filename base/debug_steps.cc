#include "base/debug_steps.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string>

namespace tally {
#ifdef TALLY_FAULT_POINTS
namespace debug_steps {

bool on = false;

namespace {
DebugStep chosen{};
int signal_number = 0;
std::atomic<std::int64_t> times_left{0};
}  // namespace

// raise(), not kill(), because a signal to this thread takes effect before the thread leaves the
// step.
void reach(DebugStep step) {
  if (step != chosen || times_left.fetch_sub(1, std::memory_order_relaxed) != 1) return;
  ::raise(signal_number);
}

}  // namespace debug_steps

namespace {

Error refused(std::string_view text, std::string_view why) {
  std::string names;
  for (const DebugStepInfo& info : kDebugSteps)
    names.append(names.empty() ? "" : ", ") += info.name;
  return Error{Status::kInvalidArgument,
               fmt::format("TALLY_DEBUG_STEP=\"{}\": {}; it is STEP:kill or STEP:stop, with :N for "
                           "the N-th time; the steps are {}",
                           text, why, names)};
}

// Removes the text up to the next colon, with the colon, and returns it without the colon.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(':'));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

}  // namespace

Outcome parse_debug_step(std::string_view text) {
  std::string_view rest = text;
  const std::string_view name = take_word(rest), action = take_word(rest);
  const auto* found = std::find_if(kDebugSteps.begin(), kDebugSteps.end(),
                                   [&](const DebugStepInfo& info) { return info.name == name; });
  if (found == kDebugSteps.end()) return refused(text, fmt::format("no step \"{}\"", name));
  if (action != "kill" && action != "stop") {
    return refused(text, fmt::format("no action \"{}\"", action));
  }
  std::int64_t times = 1;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), times);
  const bool number = error == std::errc() && end == rest.data() + rest.size() && times >= 1;
  if (!rest.empty() && !number) return refused(text, fmt::format("no number \"{}\"", rest));
  debug_steps::chosen = found->step;
  debug_steps::signal_number = action == "kill" ? SIGKILL : SIGSTOP;
  debug_steps::times_left = times;
  return Unit{};
}

Outcome start_debug_steps() {
  static const Outcome outcome = [] {
    const char* text = std::getenv("TALLY_DEBUG_STEP");
    if (text == nullptr || *text == '\0') return Outcome(Unit{});
    Outcome parsed = parse_debug_step(text);
    debug_steps::on = parsed.ok();
    return parsed;
  }();
  return outcome;
}

#else

Outcome start_debug_steps() {
  const char* text = std::getenv("TALLY_DEBUG_STEP");
  if (text == nullptr || *text == '\0') return Unit{};
  return Error{
      Status::kInvalidArgument,
      fmt::format("TALLY_DEBUG_STEP=\"{}\": this build has no fault points; unset the variable, "
                  "or build with -Dfault_points=true",
                  text)};
}

#endif
}  // namespace tally
