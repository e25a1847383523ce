// The value of network.roce: DPDK's name of a device, with its arguments.
#pragma once

#include <string>
#include <string_view>

namespace tally::control {

class RoceDevice {
 public:
  explicit RoceDevice(std::string_view text)
      : name_(text.substr(0, text.find(','))), arguments_(text.substr(name_.size())) {}

  // "0000:3b:00.0" or "net_memif0"
  const std::string& name() const { return name_; }
  bool is_on_pci() const {
    constexpr std::string_view kDigits = "0123456789abcdefABCDEF:.";
    return name_.find(':') != std::string::npos &&
           name_.find_first_not_of(kDigits) == std::string::npos;
  }
  bool is_xdp() const { return name_.starts_with("net_af_xdp"); }
  // Whether the kernel keeps the interface, and the port has an address of the kernel. address:
  // that of network.roce_address. A port that has an interface alone needs a prefix to find the
  // next hop.
  bool is_beside_kernel(std::string_view address) const {
    return is_xdp() && address.find('/') == address.npos;
  }
  // "eth1" for "iface" of "net_af_packet0,iface=eth1"; empty when there is no such argument.
  std::string argument(std::string_view key) const {
    const std::string wanted = "," + std::string(key) + "=";
    const std::size_t at = arguments_.find(wanted);
    if (at == std::string::npos) return {};
    const std::size_t begin = at + wanted.size();
    return arguments_.substr(begin, arguments_.find(',', begin) - begin);
  }

 private:
  std::string name_;
  std::string arguments_;  // each with a comma before it
};

}  // namespace tally::control
