// Speeds that somebody has measured go before those that members declare.
#include <fmt/format.h>

#include <algorithm>

#include "control/coordinator/coordinator.h"

namespace tally::control {

Outcome Coordinator::set_speeds(std::map<std::string, Measured> measured) {
  const Members members = store_.members();
  for (const auto& [name, speeds] : measured) {
    const bool here = std::any_of(members.begin(), members.end(), [&named = name](const auto& one) {
      return one.second.name == named;
    });
    if (here) continue;
    return Error{Status::kRefused,
                 fmt::format("there is no member \"{}\" to have this speed: tallyctl nodes shows "
                             "who is; measure again (tallyctl probe --out FILE)",
                             name)};
  }
  store_.put_speeds(std::move(measured));
  for (const auto& [node, member] : members) store_.put(node, with_measured(member));
  return Unit{};
}

Member Coordinator::with_measured(Member member) const {
  const auto found = store_.speeds().find(member.name);
  member.measured = found == store_.speeds().end() ? Measured{} : found->second;
  return member;
}

}  // namespace tally::control
