// A plan file: refused with a reason, or understood; then what is written of it reads as the same,
// and what passes the validator can be measured.
#include <cmath>
#include <string>

#include "control/plan/json/plan_json.h"
#include "control/plan/json/served.h"
#include "control/plan/model/load.h"
#include "control/plan/model/validate.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using tally::fuzz::require;
  const auto plan =
      tally::plan::read_plan(std::string_view(reinterpret_cast<const char*>(data), bytes));
  if (!plan) {
    require(!plan.error().message.empty(), "a refusal says why");
    return 0;
  }
  const std::string written = tally::plan::write_plan(*plan);
  const auto again = tally::plan::read_plan(written);
  require(again.ok(), "what is written is a plan");
  require(tally::plan::write_plan(*again) == written, "and the same one");
  const auto valid = tally::plan::validate(*plan, {});
  require(tally::plan::validate(*again, {}).ok() == valid.ok(), "as good as the first");
  if (!valid) {
    require(!valid.error().message.empty(), "a refusal says why");
    return 0;
  }
  const auto served = tally::plan::check_served(*plan);
  require(served.ok() || !served.error().message.empty(), "a refusal says why");
  tally::plan::Routes routes(plan->network);
  for (const auto& domain : plan->domains) {
    for (const auto& size_class : domain.classes) {
      require(std::isfinite(tally::plan::evaluate(routes, size_class).tau), "a time is finite");
    }
  }
  return 0;
}
