#include "control/cli/inspect/command.h"

#include "control/cli/inspect/compare_command.h"
#include "control/cli/inspect/draw_command.h"
#include "control/cli/inspect/explain_command.h"

namespace tally::control {

void add_inspect(CLI::App& plan, InspectArguments& arguments) {
  add_explain(plan, arguments);
  add_compare(plan, arguments);
  add_draw(plan, arguments);
}

PlanAnswer answer_inspect(const InspectArguments& arguments, bool as_json) {
  if (arguments.verb == InspectVerb::kExplain) return answer_explain(arguments.explain, as_json);
  if (arguments.verb == InspectVerb::kCompare) return answer_compare(arguments.compare, as_json);
  return answer_draw(arguments.draw);
}

}  // namespace tally::control
