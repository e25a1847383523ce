// The limit on memory that a process may lock. Memory registration with a network adapter fails
// beyond this limit.
#pragma once

#include <string>

namespace tally {

// Returns a text for error messages: "this process may lock 64 KiB (...)", with the settings that
// raise the limit.
std::string memory_limit();

}  // namespace tally
