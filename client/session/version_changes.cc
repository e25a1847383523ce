#include "client/session/version_changes.h"

#include <fmt/format.h>

#include <utility>

#include "client/session/job_entry.h"

namespace tally::client {
namespace {

constexpr Nanos kClosingVersion = 10 * kSecond;

}  // namespace

void VersionChanges::refuse(const PlanUpdate& update, const Error& why) {
  units_.options.write_log(1, fmt::format("the job's new plan is not taken: {}", why.message));
  units_.change.refuse(update.epoch, why.message);
}

Outcome VersionChanges::prepare(const PlanUpdate& update, const RoundsByTag& rounds) {
  PlanVersions& versions = units_.versions;
  if (versions.next() != nullptr || versions.old() != nullptr) {
    units_.change.refuse(update.epoch, "its last change of the plan has not ended");
    return Unit{};
  }
  const Nanos deadline = monotonic_now() + units_.change.timeouts().preparing();
  auto entry = enter_version(units_.options, units_.shared, update.version, deadline);
  if (!entry) {
    refuse(update, entry.error());
    return Unit{};
  }
  for (const auto& [warning, text] : entry->log_lines) {
    units_.options.write_log(warning ? 1 : 0, text);
  }
  // Only a version that is complete becomes the next one: an allocation that fails on the way ends
  // this change of the plan, and not the changes after it.
  auto next = version_of(*entry);
  Outcome fine = units_.watch.add(*next);
  if (fine) fine = units_.regions.add_all_to(next->nodes, deadline);
  PlanVersion& added = versions.add_next(std::move(next));
  if (!fine) {
    refuse(update, fine.error());
    return close(added);
  }
  units_.change.prepared(update.epoch, rounds, monotonic_now());
  return Unit{};
}

Outcome VersionChanges::call_off(const std::string& why) {
  units_.options.write_log(1, fmt::format("the job's new plan is not taken: {}", why));
  const Outcome closed = close(*units_.versions.next());
  units_.change.call_off(why);
  return closed;
}

Outcome VersionChanges::drop_next(const std::string& note) {
  if (!note.empty()) units_.options.write_log(0, note);
  PlanVersion* next = units_.versions.next();
  return next != nullptr ? close(*next) : Unit{};
}

void VersionChanges::go_over() {
  units_.versions.go_over(units_.change.plans());
  units_.options.write_log(
      0, fmt::format("the job uses a new plan, of epoch {}", units_.versions.now().config.epoch));
}

Outcome VersionChanges::after_steps() {
  const PlanVersion* old = units_.versions.old();
  if (old != nullptr && !units_.change.needs_old(old->book)) units_.change.moved();
  if (!units_.change.fd_has_changed()) return Unit{};
  return units_.watch.watch_coordinator(units_.change.fd());
}

Outcome VersionChanges::leave() {
  const Outcome closed = units_.versions.old() != nullptr ? leave_old() : Unit{};
  if (closed) units_.change.left();
  return closed;
}

Outcome VersionChanges::leave_old() {
  units_.change.moved();
  units_.posts.take_over(units_.versions.old()->book);
  return close(*units_.versions.old());
}

// Closes a version that no operation uses.
Outcome VersionChanges::close(PlanVersion& version) {
  const auto closed = version.nodes.close(monotonic_now() + kClosingVersion);
  if (!closed && !version.nodes.connections().fence(monotonic_now() + kSecond)) return closed;
  units_.regions.withdraw_all_from(version.nodes);
  version.nodes.connections().hang_up();
  units_.versions.remove(version);
  return Unit{};
}

}  // namespace tally::client
