#include "dataplane/transport/roce/kernel/xdp_interface.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/system/fd.h"
#include "dataplane/transport/roce/kernel/filter_file.h"
#include "dataplane/transport/roce/kernel/kernel_next_hops.h"
#include "dataplane/transport/roce/kernel/rtnetlink.h"

namespace tally::transport::roce {
namespace {

constexpr std::string_view kProgram = "tally_roce";  // as filter.c calls it
constexpr const char* kNeeds = "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF";

struct Kept {
  UniqueFd claim;
  UniqueFd program;  // the file
};

Error about(const std::string& name, const std::string& problem) {
  return {Status::kUnavailable, fmt::format("interface {} {}", name, problem)};
}

// The socket's name is abstract, so it ends with its process, and belongs to this network
// namespace. It has the interface's number, because an interface can have several names.
Result<UniqueFd> claim(const std::string& name, int index) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = fmt::format("tally-xdp-{}", index);
  text.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const std::size_t bytes = offsetof(sockaddr_un, sun_path) + 1 + text.size();
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                       static_cast<socklen_t>(bytes)) == 0) {
    return socket;
  }
  if (errno == EADDRINUSE) {
    return about(name, "is in use by another node by AF_XDP: name another one in iface=");
  }
  return about(name, fmt::format("cannot be claimed: {}", std::strerror(errno)));
}

// Whether the kernel has AF_XDP, and lets this process have sockets and programs.
Outcome check_kernel(const std::string& name) {
  const UniqueFd socket(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
  const int error = socket ? 0 : errno;
  if (error == EAFNOSUPPORT) {
    return about(
        name,
        "cannot be taken by AF_XDP: this kernel is built without it "
        "(CONFIG_XDP_SOCKETS); use net_af_packet0, with an address in network.roce_address "
        "that only the port has");
  }
  constexpr std::array<bpf_insn, 2> kPass = {
      bpf_insn{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = XDP_PASS},
      bpf_insn{.code = BPF_JMP | BPF_EXIT}};
  UniqueFd probe;
  if (socket) {
    probe.reset(
        bpf_prog_load(BPF_PROG_TYPE_XDP, "probe", "GPL", kPass.data(), kPass.size(), nullptr));
  }
  if (probe) return Unit{};
  const int reason = socket ? errno : error;
  if (reason == EPERM || reason == EACCES) {
    return about(name, fmt::format("cannot be taken by AF_XDP: not permitted; run tallyd-nics as "
                                   "root, or give it {}",
                                   kNeeds));
  }
  return about(name, fmt::format("cannot be taken by AF_XDP: {}", std::strerror(reason)));
}

// The name of a program, or "" where this process may not see it.
std::string name_of(const UniqueFd& program) {
  bpf_prog_info info{};
  unsigned bytes = sizeof info;
  if (!program || bpf_obj_get_info_by_fd(program.get(), &info, &bytes) != 0) return "";
  return {info.name, ::strnlen(info.name, sizeof info.name)};
}

// Whether libxdp can go on with the program, because it is one of libxdp.
bool is_of_libxdp(std::string_view program) {
  return program == "xsk_def_prog" || program == "xdp_dispatcher";
}

// An interface has at most one XDP program. When DPDK's driver closes, it removes the program that
// is there, also one that it has not attached. This process holds the claim, so a program of Tally
// at the interface is of a process that has ended.
Outcome make_room(const std::string& name, int index, bool is_beside) {
  unsigned id = 0;
  if (const int code = bpf_xdp_query_id(index, 0, &id); code != 0) {
    return about(name,
                 fmt::format("cannot be asked for its XDP program: {}", std::strerror(-code)));
  }
  if (id == 0) return Unit{};
  const UniqueFd program(bpf_prog_get_fd_by_id(id));
  const std::string found = name_of(program);
  if (!is_beside && is_of_libxdp(found)) return Unit{};
  if (found == kProgram) {
    bpf_xdp_attach_opts seen{};  // the kernel removes this program, and no other
    seen.sz = sizeof seen;
    seen.old_prog_fd = program.get();
    if (bpf_xdp_detach(index, 0, &seen) == 0) return Unit{};
  }
  return about(name, fmt::format("has an XDP program already ({}, number {}): stop the program "
                                 "that it belongs to, or remove it by `ip link set dev {} xdp off`",
                                 found.empty() ? "of unknown name" : found, id, name));
}

// Asks for a fact of the interface. None: there is no such interface.
std::optional<ifreq> ask(const std::string& name, unsigned long fact) {
  ifreq request{};
  if (name.size() >= sizeof request.ifr_name) return std::nullopt;
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::ioctl(socket.get(), fact, &request) != 0) return std::nullopt;
  return request;
}

Result<MacAddress> mac_of(const std::string& name) {
  const auto found = ask(name, SIOCGIFHWADDR);
  if (!found || found->ifr_hwaddr.sa_family != ARPHRD_ETHER) {
    return about(name, "is no Ethernet interface: name another one in iface=");
  }
  MacAddress mac{};
  std::memcpy(mac.data(), found->ifr_hwaddr.sa_data, mac.size());
  return mac;
}

}  // namespace

Result<XdpInterface> open_xdp_interface(const std::string& name,
                                        const std::optional<IpAddress>& beside) {
  const auto found = ask(name, SIOCGIFINDEX);
  if (!found) {
    return about(name,
                 "of network.roce is not there: `ip link` lists them (a name in iface= has at "
                 "most 15 characters)");
  }
  const int index = found->ifr_ifindex;
  if (auto checked = check_kernel(name); !checked) return checked.error();
  auto claimed = claim(name, index);
  if (!claimed) return claimed.error();
  auto kept = std::make_shared<Kept>(Kept{.claim = std::move(*claimed)});
  if (auto made = make_room(name, index, beside.has_value()); !made) return made.error();
  XdpInterface interface;
  if (beside) {
    const auto mac = mac_of(name);
    if (!mac) return mac.error();
    auto file = make_file(filter_for(*beside, *mac));
    if (!file) return file.error();
    auto tables = Rtnetlink::open(static_cast<unsigned>(index), *beside);
    if (!tables) return tables.error();
    kept->program = std::move(*file);
    interface.arguments = ",xdp_prog=" + path_of(kept->program);
    interface.next_hops = std::make_shared<KernelNextHops>(std::move(*tables));
  }
  interface.kept = std::move(kept);
  return interface;
}

}  // namespace tally::transport::roce
