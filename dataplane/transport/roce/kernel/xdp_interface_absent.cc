// Of programs that cannot share an interface with the kernel. TALLY_NO_XDP has the reason.
#include <fmt/format.h>

#include "dataplane/transport/roce/kernel/xdp_interface.h"

namespace tally::transport::roce {

Result<XdpInterface> open_xdp_interface(const std::string& name,
                                        const std::optional<IpAddress>& beside) {
  if (!beside) return XdpInterface{};
  return Error{Status::kUnsupported,
               fmt::format("interface {}: AF_XDP beside the kernel is not possible: {}", name,
                           TALLY_NO_XDP)};
}

}  // namespace tally::transport::roce
