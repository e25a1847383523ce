#include "control/node/regions/region_table.h"

#include <fmt/format.h>

#include <utility>

namespace tally::control {

Result<Region*> RegionTable::add(std::uint32_t wished, std::uint64_t bytes) {
  const std::uint32_t number = wished != 0 ? wished : free_number();
  if (const Region* before = by_number(number)) {
    if (before->is_leaving()) {
      return Error{Status::kAgain,
                   fmt::format("region {} is being deregistered: wait for the answer "
                               "to that, then register it",
                               number)};
    }
    return Error{Status::kInvalidArgument,
                 fmt::format("region {} of this session is taken: deregister it first, or leave "
                             "\"region\" out",
                             number)};
  }
  Region& region = regions_[number];
  region.id = {number, ++last_identity_};
  region.bytes = bytes;
  return &region;
}

Region* RegionTable::by_number(std::uint32_t number) {
  const auto found = regions_.find(number);
  return found == regions_.end() ? nullptr : &found->second;
}

Region* RegionTable::find(RegionId id) {
  Region* region = by_number(id.number);
  return region != nullptr && region->id.identity == id.identity ? region : nullptr;
}

void RegionTable::erase(RegionId id) {
  if (find(id) != nullptr) regions_.erase(id.number);
}

void RegionTable::give_up_mapping() {
  for (const auto& [number, region] : regions_) {
    if (region.request != nullptr) region.request->given_up = true;
  }
}

std::vector<PeerMemory> RegionTable::take_memory() {
  std::vector<PeerMemory> all;
  all.reserve(regions_.size());
  for (auto& [number, region] : regions_) {
    all.push_back(std::move(region.memory));
    if (region.request != nullptr && region.request->memory.mapping) {
      all.back() = std::move(region.request->memory);
    }
  }
  return all;
}

std::uint32_t RegionTable::free_number() const {
  std::uint32_t lowest = 1;
  for (const auto& [used, region] : regions_) {
    if (used != lowest) break;
    ++lowest;
  }
  return lowest;
}

}  // namespace tally::control
