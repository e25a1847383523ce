// Starts DPDK's EAL for tests of ports: without hugepages, PCI devices and files. It starts once
// per process and ends with it.
#pragma once

#include <cstddef>
#include <span>

namespace tally::transport::roce {

// Returns false when the EAL did not start.
bool start_test_eal();

// Memory of the EAL, which every device can read. It lives until the process ends; the same for all
// calls.
inline constexpr std::size_t kTestMemory = 65536;
std::span<std::byte> test_memory();

}  // namespace tally::transport::roce
