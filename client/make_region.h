// A region out of what a caller says of its memory.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/link.h"
#include "client/region.h"
#include "tally/tally.h"

namespace tally::client {

// As tally_region_register describes it. `say` gets a line where the memory will be copied.
Result<std::unique_ptr<Region>> make_region(const MemoryNeeds& needs, const tally_memory& memory,
                                            const std::function<void(const std::string&)>& say);

}  // namespace tally::client
