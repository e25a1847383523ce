#include "client/session/session_regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/debug_steps.h"

namespace tally::client {
namespace {

constexpr Nanos kRegionTimeout = 30 * kSecond;  // a region of many GB takes seconds
// A smaller region is populated in about the time that the question takes, so it is not worth
// asking. A refusal at registration comes soon enough.
constexpr std::uint64_t kWorthAsking = 1 << 20;
constexpr std::uint64_t kLeastSideRegion = 4096;

using Added = SessionRegions::Added;

// Registers the region with the nodes of all versions, and sets its number.
Result<Added> register_at_all(const PlanVersions& versions, Region& region) {
  const Nanos deadline = monotonic_now() + kRegionTimeout;
  Nodes& now = versions.now().nodes;
  const auto id = now.add_region(region, deadline);
  if (!id) return id.error();
  if (PlanVersion* old = versions.old()) {
    const auto added = old->nodes.add_region(region, deadline, *id);
    if (!added) {
      now.take_back(region, *id, monotonic_now() + kRegionTimeout);
      return added.error();
    }
  }
  region.id = *id;
  Added added{&region};
  if (PlanVersion* next = versions.next()) {
    const auto there = next->nodes.add_region(region, deadline, *id);
    if (!there) added.refused_by_next = there.error();
  }
  return added;
}

}  // namespace

Outcome SessionRegions::room_for(const PlanVersions& versions, std::uint64_t bytes) {
  if (bytes < kWorthAsking) return Unit{};
  for (PlanVersion* version : {&versions.now(), versions.old()}) {
    if (version == nullptr) continue;
    auto room = version->nodes.room_for(bytes, monotonic_now() + kRegionTimeout);
    if (!room) return room;
  }
  return Unit{};
}

Result<Added> SessionRegions::add(const PlanVersions& versions, std::unique_ptr<Region> region) {
  auto added = register_at_all(versions, *region);
  if (!added) return added;
  debug_step(DebugStep::kClientRegionAdded);
  regions_.push_back(std::move(region));
  return added;
}

// Side regions come from a pool, because registration costs a call. Their sizes are powers of two,
// so that later operations find a region that fits.
Result<Added> SessionRegions::side_region(const PlanVersions& versions, std::uint64_t bytes) {
  const std::uint64_t wanted = std::bit_ceil(std::max(bytes, kLeastSideRegion));
  for (const auto& region : side_regions_) {
    if (region->outstanding == 0 && region->bytes() == wanted) return Added{region.get()};
  }
  if (auto room = room_for(versions, wanted); !room) return room.error();
  auto made = Region::allocate(wanted);
  if (!made) return made.error();
  auto added = register_at_all(versions, **made);
  if (added) side_regions_.push_back(std::move(made).value());
  return added;
}

Outcome SessionRegions::remove(const PlanVersions& versions, const Region& region, bool lost) {
  for (PlanVersion* version : versions.all()) {
    if (lost) {
      version->nodes.connections().withdraw(region);
      continue;
    }
    auto done = version->nodes.remove_region(region, monotonic_now() + kRegionTimeout);
    if (!done) return done;
  }
  std::erase_if(regions_, [&](const auto& own) { return own.get() == &region; });
  return Unit{};
}

bool SessionRegions::owns(const Region* region) const {
  return std::any_of(regions_.begin(), regions_.end(),
                     [&](const auto& own) { return own.get() == region; });
}

Outcome SessionRegions::add_all_to(Nodes& nodes, Nanos deadline) const {
  for (const auto* regions : {&regions_, &side_regions_}) {
    for (const auto& region : *regions) {
      const auto added = nodes.add_region(*region, deadline, region->id);
      if (!added) return added.error();
    }
  }
  return Unit{};
}

void SessionRegions::withdraw_all_from(Nodes& nodes) const {
  for (const auto* regions : {&regions_, &side_regions_}) {
    for (const auto& region : *regions) nodes.connections().withdraw(*region);
  }
}

Outcome SessionRegions::replace_used(const std::function<RegionUse(const Region&)>& use_of) const {
  for (const auto* regions : {&regions_, &side_regions_}) {
    for (const auto& region : *regions) {
      if (region->outstanding == 0) continue;
      const RegionUse use = regions == &regions_ ? use_of(*region) : RegionUse::kWhole;
      if (use == RegionUse::kOnlyRead) continue;
      if (use == RegionUse::kPart) {
        return Error{Status::kUnsupported,
                     fmt::format("the region of {} bytes at {} cannot move, because outstanding "
                                 "operations place results in a part of it",
                                 region->bytes(), static_cast<void*>(region->data()))};
      }
      if (auto replaced = region->replace(); !replaced) return replaced;
    }
  }
  return Unit{};
}

Outcome SessionRegions::move_used() const {
  Outcome all = Unit{};
  for (const auto& region : regions_) {
    if (region->outstanding == 0) continue;
    if (auto moved = region->move(); !moved && all) all = moved.error();
  }
  return all;
}

}  // namespace tally::client
