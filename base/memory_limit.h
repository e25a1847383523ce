// How much memory a process may pin: what registering memory with a network fails of.
#pragma once

#include <string>

namespace tally {

// For errors: "this process may lock 64 KiB (...)", with what raises it.
std::string memory_limit();

}  // namespace tally
