// The codes of base/element_codes.h under the names that this folder uses.
#pragma once

#include "base/element_codes.h"

namespace tally::summation {

using tally::ElementType;
using tally::kElementTypeCount;
using tally::kOperationCount;
using tally::Operation;

}  // namespace tally::summation
