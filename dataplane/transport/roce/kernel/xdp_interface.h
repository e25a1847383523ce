// An interface of the kernel that a port takes by AF_XDP: alone, or beside the kernel. Beside the
// kernel, an XDP program gives the port's RoCEv2 packets to the port, and all other frames to the
// kernel (filter.c).
//
// tallyd-nics has it. Other programs link xdp_interface_absent.cc.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "dataplane/transport/roce/port/next_hops.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {

struct XdpInterface {
  // What the port needs until it is closed (PortOptions::kept).
  std::shared_ptr<const void> kept{};
  std::string arguments{};                // to be appended to the name of the port
  std::shared_ptr<NextHops> next_hops{};  // null: the port is alone and finds them itself
};

// Claims the interface for this process, and removes the program that a killed process has left
// there. Refuses an interface with a program of another project. beside: the kernel's address of
// the interface that the port shares; none: the port is alone. An error has the interface and the
// remedy.
Result<XdpInterface> open_xdp_interface(const std::string& name,
                                        const std::optional<IpAddress>& beside);

}  // namespace tally::transport::roce
