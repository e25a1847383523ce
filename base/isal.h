// Finds functions of ISA-L when the program runs, so programs and libraries that link this file
// also load on machines without ISA-L.
#pragma once

#include "base/result.h"

namespace tally {

// Any thread. An error says why ISA-L or the function is not usable.
Result<void*> isal_function(const char* name);

}  // namespace tally
