// libibverbs and its devices, as transport verbs sees them.
#pragma once

#include "base/result.h"
#include "control/cli/doctor/system.h"

namespace tally::control::doctor {

// Opens the library. Opens each device to read its ports. Opens the device that the transport would
// choose. Returns kUnsupported when the library is not installed.
Result<VerbsLibrary> open_verbs_library(const VerbsWish& wish);

}  // namespace tally::control::doctor
