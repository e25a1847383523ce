// libibverbs and its devices, as transport verbs sees them.
#pragma once

#include "base/result.h"
#include "control/doctor/system.h"

namespace tally::control::doctor {

// Opens the library, each device to ask for its ports, and the one that the transport would choose.
// kUnsupported: it is not installed.
Result<VerbsLibrary> open_verbs_library(const VerbsWish& wish);

}  // namespace tally::control::doctor
