// The regions of a session: those of its caller, and a pool of side regions for statistics and
// checksums. All nodes of all versions of the plan know a region by the same number. The session
// owns it; one thread at a time uses it. A call that fails to add a region leaves it at no node.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "client/memory/region.h"
#include "client/versions/plan_versions.h"

namespace tally::client {

class SessionRegions {
 public:
  struct Added {
    Region* region = nullptr;
    // Set: the nodes of the next version do not take the region, so the change must be called off.
    std::optional<Error> refused_by_next{};
  };

  // Asks whether the nodes accept one more region of so many bytes. Small regions count as accepted
  // without a question.
  static Outcome room_for(const PlanVersions& versions, std::uint64_t bytes);
  Result<Added> add(const PlanVersions& versions, std::unique_ptr<Region> region);
  // Returns a side region that no operation uses, and adds one when there is none.
  Result<Added> side_region(const PlanVersions& versions, std::uint64_t bytes);
  // Removes a region of the caller. `lost`: without a call to the nodes, because the session is
  // over. Precondition: no operation uses it.
  Outcome remove(const PlanVersions& versions, const Region& region, bool lost);
  // Whether it is a region of the caller.
  bool owns(const Region* region) const;

  // Registers all regions at the nodes of one more version, under the numbers that they have.
  Outcome add_all_to(Nodes& nodes, Nanos deadline) const;
  // Withdraws all regions from connections that are about to end.
  void withdraw_all_from(Nodes& nodes) const;
  // Moves the regions that operations use out of the nodes' reach. Others are in no tile. The error
  // is that of the first region that cannot move.
  Outcome move_used() const;
  // The same when the session goes on: nodes of later versions get the memory that is there now.
  // `use_of` returns the use of a region of the caller. A region with kOnlyRead stays. A region
  // with kPart is an error: the caller may write to its other bytes while it moves, and these would
  // be lost.
  Outcome replace_used(const std::function<RegionUse(const Region&)>& use_of) const;

 private:
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<std::unique_ptr<Region>> side_regions_;
};

}  // namespace tally::client
