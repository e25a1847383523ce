// The XDP program of a port beside the kernel (filter.c), as a file in memory. DPDK's net_af_xdp
// takes the program by a path, and no settings with it. So the settings are in the file.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/fd.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {

// The bytes of the program's ELF file for a port with these addresses.
std::vector<unsigned char> filter_for(const IpAddress& address, const MacAddress& mac);

// A file in memory with these bytes. It is gone when no process has it open.
Result<UniqueFd> make_file(std::span<const unsigned char> bytes);

// By which this process opens the file. It has no comma, because DPDK's arguments have them between
// each other.
std::string path_of(const UniqueFd& file);

}  // namespace tally::transport::roce
