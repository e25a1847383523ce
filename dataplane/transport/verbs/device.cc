#include "dataplane/transport/verbs/device.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/system/fd.h"
#include "base/system/memory_limit.h"

namespace tally::transport::verbs {
namespace {

constexpr std::size_t kMaxGids = 1024;
constexpr std::uint8_t kMaxReads = 16;  // more reads would only take turns on the wire

struct Wish {
  std::string name;
  std::optional<std::uint8_t> port;
  std::optional<std::uint8_t> gid_index;
  std::uint32_t mtu = 0;
};

std::optional<std::uint8_t> to_number(std::string_view text) {
  std::uint8_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<Wish> parse(const std::string& text) {
  const Error unreadable{
      Status::kInvalidArgument,
      fmt::format("RDMA device \"{}\" is not NAME, NAME:PORT or NAME:PORT:GID-INDEX, as in "
                  "mlx5_0:1:3",
                  text)};
  Wish wish;
  std::string_view rest = text;
  const auto next = [&rest] {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::string_view part = rest.substr(0, colon);
    rest.remove_prefix(std::min(colon + 1, rest.size()));
    return part;
  };
  wish.name = next();
  if (text.find(':') == std::string::npos) return wish;
  wish.port = to_number(next());
  if (!wish.port || *wish.port == 0 || wish.name.empty()) return unreadable;
  if (std::count(text.begin(), text.end(), ':') == 1) return wish;
  wish.gid_index = to_number(next());
  if (!wish.gid_index || !rest.empty()) return unreadable;
  return wish;
}

bool is_ipv4(const ibv_gid& gid) {
  static constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0,    0,
                                                           0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kMapped.begin(), kMapped.end(), gid.raw);
}

bool is_link_local(const ibv_gid& gid) {
  return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

std::optional<ibv_gid> gid_of(const std::string& host) {
  ibv_gid gid{};
  if (::inet_pton(AF_INET6, host.c_str(), gid.raw) == 1) return gid;
  gid.raw[10] = gid.raw[11] = 0xff;
  if (::inet_pton(AF_INET, host.c_str(), gid.raw + 12) == 1) return gid;
  return std::nullopt;
}

const char* kind_of(const ibv_gid_entry& entry) {
  switch (entry.gid_type) {
    case IBV_GID_TYPE_ROCE_V2:
      return "RoCE v2";
    case IBV_GID_TYPE_ROCE_V1:
      return "RoCE v1";
    default:
      return "InfiniBand";
  }
}

// Returns how well a GID serves; 0 means not at all. RoCE v1 and link-local addresses do not cross
// a router.
int worth(const ibv_gid_entry& entry, bool ethernet, const std::optional<ibv_gid>& wanted) {
  if (wanted && std::memcmp(&entry.gid, &*wanted, sizeof entry.gid) == 0 &&
      entry.gid_type != IBV_GID_TYPE_ROCE_V1) {
    return 5;
  }
  if (!ethernet) return entry.gid_index == 0 ? 4 : 1;
  if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) return 0;
  if (is_link_local(entry.gid)) return 1;
  return is_ipv4(entry.gid) ? 3 : 2;
}

struct Candidate {
  Context context;
  Choice choice;
  int worth = 0;
};

// Looks at one device after another. Notes the reason for each device that does not serve.
class Search {
 public:
  Search(Api& api, Wish wish, std::optional<ibv_gid> host)
      : api_(api), wish_(std::move(wish)), host_(host) {}

  void look_at(ibv_device* device) {
    const std::string name = api_.get_device_name(device);
    if (!wish_.name.empty() && name != wish_.name) {
      others_.push_back(name);
      return;
    }
    if (!serves(name, device)) return;
    Context context(api_, api_.open_device(device));
    if (!context) {
      return lacks(name, fmt::format("cannot be opened: {} (is /dev/infiniband/uverbs* readable "
                                     "and writable for this user?)",
                                     std::strerror(errno)));
    }
    Candidate best = best_of(name, *context.get());
    if (best.worth > best_.worth) {
      best.context = std::move(context);
      best_ = std::move(best);
    }
  }

  // Looks at the one device that the caller has open.
  Outcome look_at(ibv_context& context) {
    const std::string name = api_.get_device_name(context.device);
    if (!wish_.name.empty() && name != wish_.name) {
      return Error{Status::kInvalidArgument,
                   fmt::format("the ibv_pd is of device {}, and transport verbs was asked for on "
                               "{}: name that device or none",
                               name, wish_.name)};
    }
    if (serves(name, context.device)) best_ = best_of(name, context);
    if (best_.worth > 0) return Unit{};
    return Error{Status::kUnsupported, "the ibv_pd's device cannot be used: " + why_none()};
  }

  Candidate take() { return std::move(best_); }

  std::string why_none() const {
    if (!lacking_.empty()) return fmt::format("{}", fmt::join(lacking_, "; "));
    if (wish_.name.empty()) return "this machine has none (rdma link shows them)";
    return others_.empty()
               ? "this machine has none (rdma link shows them)"
               : fmt::format("there is no {}, but {}", wish_.name, fmt::join(others_, ", "));
  }

 private:
  void lacks(const std::string& name, const std::string& what) {
    lacking_.push_back(name + " " + what);
  }

  bool serves(const std::string& name, const ibv_device* device) {
    const bool fine = device->transport_type == IBV_TRANSPORT_IB;
    if (!fine) lacks(name, "is neither InfiniBand nor RoCE (for EFA there is transport fabric)");
    return fine;
  }

  Candidate best_of(const std::string& name, ibv_context& context) {
    Candidate best;
    ibv_device_attr attributes{};
    if (const int error = api_.query_device(&context, &attributes); error != 0) {
      lacks(name, fmt::format("cannot be queried: {}", std::strerror(error)));
      return best;
    }
    std::vector<ibv_gid_entry> gids(kMaxGids);
    const ssize_t count = api_.query_gid_table(&context, gids.data(), gids.size());
    gids.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    for (std::uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) {
      if (wish_.port && *wish_.port != port) continue;
      look_at(name, context, attributes, port, gids, best);
    }
    if (wish_.port && *wish_.port > attributes.phys_port_cnt) {
      lacks(name,
            fmt::format("has {} ports, and no port {}", attributes.phys_port_cnt, *wish_.port));
    }
    return best;
  }

  void look_at(const std::string& name, ibv_context& context, const ibv_device_attr& device,
               std::uint8_t number, const std::vector<ibv_gid_entry>& gids, Candidate& best) {
    ibv_port_attr port{};
    if (const int error = api_.query_port(&context, number, &port); error != 0) {
      return lacks(name,
                   fmt::format("port {} cannot be queried: {}", number, std::strerror(error)));
    }
    if (port.state != IBV_PORT_ACTIVE) {
      return lacks(name,
                   fmt::format("port {} is not active (is its link up? see rdma link)", number));
    }
    const bool ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    bool any = false;
    for (const ibv_gid_entry& entry : gids) {
      if (entry.port_num != number || entry.gid_index > UINT8_MAX) continue;
      const bool forced = wish_.gid_index && *wish_.gid_index == entry.gid_index;
      const int value = forced ? 6 : wish_.gid_index ? 0 : worth(entry, ethernet, host_);
      any |= value > 0;
      if (value <= best.worth) continue;
      best.worth = value;
      best.choice = describe(name, device, port, number, entry, value);
    }
    if (!any && wish_.gid_index) {
      return lacks(name, fmt::format("port {} has no GID {}", number, *wish_.gid_index));
    }
    if (!any) {
      lacks(name,
            fmt::format("port {} has no GID of RoCE v2: give its interface an address", number));
    }
  }

  Choice describe(const std::string& name, const ibv_device_attr& device, const ibv_port_attr& port,
                  std::uint8_t number, const ibv_gid_entry& entry, int value) const {
    Choice choice;
    choice.device = name;
    choice.port = number;
    choice.gid_index = static_cast<std::uint8_t>(entry.gid_index);
    choice.gid = entry.gid;
    choice.lid = port.lid;
    choice.ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    choice.mtu = port.active_mtu;
    while (wish_.mtu > 0 && bytes_of(choice.mtu) > wish_.mtu && choice.mtu > IBV_MTU_256) {
      choice.mtu = static_cast<ibv_mtu>(choice.mtu - 1);
    }
    choice.reads_out =
        static_cast<std::uint8_t>(std::clamp<int>(device.max_qp_init_rd_atom, 1, kMaxReads));
    choice.reads_in =
        static_cast<std::uint8_t>(std::clamp<int>(device.max_qp_rd_atom, 1, kMaxReads));
    choice.max_wr = static_cast<std::uint32_t>(std::max(device.max_qp_wr, 0));
    choice.max_cqe = static_cast<std::uint32_t>(std::max(device.max_cqe, 0));
    choice.why = fmt::format(
        "{} port {}, GID {} ({}, {}), MTU {}{}: {}", name, number, entry.gid_index,
        to_text(entry.gid), kind_of(entry), bytes_of(choice.mtu),
        choice.mtu < port.active_mtu ? fmt::format(" of {}", bytes_of(port.active_mtu)) : "",
        value == 6   ? "as asked for"
        : value == 5 ? "it has the address of the control connection"
                     : "the first that serves, none has the control connection's address");
    return choice;
  }

  Api& api_;
  Wish wish_;
  std::optional<ibv_gid> host_;
  Candidate best_;
  std::vector<std::string> lacking_;
  std::vector<std::string> others_;
};

}  // namespace

std::string to_text(const ibv_gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_ipv4(gid)) {
    ::inet_ntop(AF_INET, gid.raw + 12, text.data(), text.size());
  } else {
    ::inet_ntop(AF_INET6, gid.raw, text.data(), text.size());
  }
  return text.data();
}

std::string why_not_made(int error) {
  std::string why = std::strerror(error);
  if (error == ENOMEM) why += "; " + memory_limit();
  return why;
}

Result<std::unique_ptr<Device>> Device::open(Api& api, const DeviceOptions& options) {
  auto wish = parse(options.device);
  if (!wish) return wish.error();
  wish->mtu = options.mtu;
  Search search(api, std::move(wish).value(), gid_of(options.host));
  if (options.domain != nullptr) {
    auto looked = search.look_at(*options.domain->context);
    if (!looked) return looked.error();
    std::unique_ptr<Device> device(new Device(api, {}, std::move(search.take().choice)));
    device->choice_.ack_timeout = options.ack_timeout;
    device->domain_ = options.domain;
    return device;
  }
  int count = 0;
  ibv_device** list = api.get_device_list(&count);
  if (list == nullptr && errno == ENOSYS) {
    return Error{
        Status::kUnsupported,
        "no RDMA device to use: this kernel has no RDMA (the module ib_uverbs is not loaded)"};
  }
  if (list == nullptr) {
    return Error{Status::kUnsupported,
                 fmt::format("RDMA devices cannot be listed: {} (is the module ib_uverbs loaded?)",
                             std::strerror(errno))};
  }
  for (int i = 0; i < count; ++i) search.look_at(list[i]);
  api.free_device_list(list);
  Candidate found = search.take();
  if (!found.context) {
    return Error{Status::kUnsupported, "no RDMA device to use: " + search.why_none()};
  }
  std::unique_ptr<Device> device(
      new Device(api, std::move(found.context), std::move(found.choice)));
  device->choice_.ack_timeout = options.ack_timeout;
  set_nonblocking(device->event_fd());
  device->own_domain_ = ProtectionDomain(api, api.alloc_pd(device->context_.get()));
  device->domain_ = device->own_domain_.get();
  if (!device->own_domain_) {
    return Error{Status::kNoMemory, fmt::format("a protection domain on {}: {}",
                                                device->choice_.device, std::strerror(errno))};
  }
  return device;
}

Result<MemoryRegion> Device::expose(void* data, std::size_t bytes, unsigned access) const {
  MemoryRegion region(api_, api_.reg_mr(domain_, data, bytes, access));
  if (region) return region;
  return Error{errno == ENOMEM ? Status::kNoMemory : Status::kInvalidArgument,
               fmt::format("{} KiB of memory cannot be registered with {}: {}", bytes >> 10,
                           choice_.device, why_not_made(errno))};
}

// Asks for a registration that cannot succeed. A driver that imports dma-bufs looks for the
// descriptor and reports EBADF. A driver that does not, and a kernel without this request, report
// another error before that.
bool Device::takes_dmabufs() const {
  const MemoryRegion none(api_, api_.reg_dmabuf_mr(domain_, 0, 0, 0, -1, 0));
  return none || (errno != EOPNOTSUPP && errno != EPROTONOSUPPORT);
}

Result<MemoryRegion> Device::expose_dmabuf(int fd, std::uint64_t offset, std::size_t bytes,
                                           std::uint64_t iova, unsigned access) const {
  if (!takes_dmabufs()) {
    return Error{Status::kUnsupported,
                 fmt::format("{} does not import dma-bufs (it takes Linux 5.12, rdma-core 34 and a "
                             "driver that does, as mlx5): register the memory by its address; for "
                             "GPU memory load nvidia-peermem, ibv_reg_mr and give the ibv_mr",
                             choice_.device)};
  }
  MemoryRegion region(
      api_, api_.reg_dmabuf_mr(domain_, offset, bytes, iova, fd, static_cast<int>(access)));
  if (region) return region;
  return Error{errno == ENOMEM ? Status::kNoMemory : Status::kInvalidArgument,
               fmt::format("{} bytes at {} of the dma-buf with descriptor {} cannot be registered "
                           "with {}: {}",
                           bytes, offset, fd, choice_.device, std::strerror(errno))};
}

}  // namespace tally::transport::verbs
