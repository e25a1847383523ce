// The regions of one session, by number. A number may serve several regions, one after the other. A
// later event finds its region by the identity.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "control/node/regions/client_memory.h"
#include "net/server/service.h"

namespace tally::control {

// identity is unique among all regions of the session, past and present.
struct RegionId {
  std::uint32_t number = 0;
  std::uint64_t identity = 0;
};

struct Region {
  enum class State : std::uint8_t {
    kAdding,    // its memory is being mapped, or it is being added to the shards
    kLive,      // its owner knows its number
    kRemoving,  // the shards release it, or its memory is being unmapped
  };

  RegionId id;
  std::uint64_t bytes = 0;  // bytes that admission counts; 0 for a worker on another machine
  State state = State::kAdding;
  std::shared_ptr<ClientMemory::Request> request{};  // set while its memory is being mapped
  PeerMemory memory{};
  // Answers the owner's request to remove the region, when the owner sent it before the region was
  // added.
  std::shared_ptr<rpc::Reply> removal{};

  bool is_leaving() const { return state == State::kRemoving || removal != nullptr; }
};

class RegionTable {
 public:
  // Adds a region with the number `wished`, or with the lowest free number when that is 0. Returns
  // an error when the number is not available.
  Result<Region*> add(std::uint32_t wished, std::uint64_t bytes);
  // The region that has the number now; nullptr when there is none.
  Region* by_number(std::uint32_t number);
  // Returns nullptr when that region is gone, even when another one has its number now.
  Region* find(RegionId id);
  // Removes the region and frees its number. Does nothing when the region is gone already.
  void erase(RegionId id);

  // Stops populating the regions that are being mapped, when the session ends.
  void give_up_mapping();
  // Takes the memory of all regions. Precondition: no mapping is in progress.
  std::vector<PeerMemory> take_memory();

  bool empty() const { return regions_.empty(); }
  // The identity of some region. Precondition: there is one.
  RegionId any() const { return regions_.begin()->second.id; }

 private:
  std::uint32_t free_number() const;

  std::map<std::uint32_t, Region> regions_;  // by number
  std::uint64_t last_identity_ = 0;
};

}  // namespace tally::control
