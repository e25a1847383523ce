#include "gpu_bridge/machine/host_hwloc.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>

#ifdef TALLY_HWLOC
#include <hwloc.h>
#endif

namespace tally::host {

#ifdef TALLY_HWLOC
namespace {

constexpr std::size_t kMaxXmlBytes = 16 << 20;
constexpr double kGiga = 1e9, kMega = 1e6;  // hwloc's units: GB/s of PCIe, MB/s of NVLink
// BytePS (OSDI '20), section 4.2.1: more than 300 Gbit/s between sockets.
constexpr double kSocketSpeed = 37.5e9;
constexpr unsigned kMostSeconds = 20;  // for all that hwloc does
constexpr int kRefusedXml = 9;         // exit status of the child that reads first
constexpr std::uint16_t kNvidia = 0x10de, kAmd = 0x1002;

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using TopologyHandle = std::unique_ptr<hwloc_topology, DestroyTopology>;

std::string_view view(const char* text) {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

// hwloc takes these numbers from the XML as they are, so they may be none of the enumeration.
template <typename Enumeration>
bool is(const Enumeration& value, Enumeration wanted) {
  return std::memcmp(&value, &wanted, sizeof value) == 0;
}

bool is_network(hwloc_obj_t device) {
  return is(device->attr->osdev.type, HWLOC_OBJ_OSDEV_NETWORK);
}

bool is_openfabrics(hwloc_obj_t device) {
  return is(device->attr->osdev.type, HWLOC_OBJ_OSDEV_OPENFABRICS);
}

bool is_pci_bridge(hwloc_obj_t bridge) {
  return is(bridge->attr->bridge.upstream_type, HWLOC_OBJ_BRIDGE_PCI);
}

bool is_gpu(hwloc_obj_t device) {
  const auto& pci = device->attr->pcidev;
  const bool compute = pci.class_id == 0x0302 || pci.class_id == 0x0380 || pci.class_id == 0x1200;
  const bool display = pci.class_id == 0x0300;
  if ((compute || display) && (pci.vendor_id == kNvidia || pci.vendor_id == kAmd)) return true;
  for (hwloc_obj_t one = device->io_first_child; one != nullptr; one = one->next_sibling) {
    const std::string_view by = view(one->subtype);
    if (by == "CUDA" || by == "NVML" || by == "RSMI") return true;
  }
  return false;
}

// "nvml0", "eth0": the name that people use, else the address on the bus.
std::string name_of(hwloc_obj_t device, Kind kind) {
  const std::initializer_list<std::string_view> gpus = {"nvml", "rsmi", "cuda"};
  std::string name;
  std::size_t rank = gpus.size();
  for (hwloc_obj_t one = device->io_first_child; one != nullptr; one = one->next_sibling) {
    if (one->name == nullptr) continue;
    if (kind == Kind::kNic) {
      if (is_network(one) || (is_openfabrics(one) && name.empty())) name = one->name;
      continue;
    }
    const std::size_t found = static_cast<std::size_t>(
        std::find_if(gpus.begin(), gpus.end(),
                     [&](std::string_view prefix) { return view(one->name).starts_with(prefix); }) -
        gpus.begin());
    if (found < rank) {
      name = one->name;
      rank = found;
    }
  }
  const auto& pci = device->attr->pcidev;
  return name.empty() ? fmt::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(pci.domain),
                                    unsigned{pci.bus}, unsigned{pci.dev}, unsigned{pci.func})
                      : name;
}

class TopologyReader {
 public:
  TopologyReader(hwloc_topology_t topology, Devices devices)
      : topology_(topology), with_gpus_(devices == Devices::kAll) {
    host_.vertices.push_back({Kind::kNetwork, "network"});
  }

  Result<Host> read() {
    if (auto added = add_numa_nodes(); !added) return added.error();
    hwloc_obj_t device = nullptr;
    while ((device = hwloc_get_next_pcidev(topology_, device)) != nullptr) {
      const Kind kind = is_gpu(device) ? Kind::kGpu : Kind::kNic;
      if (kind == Kind::kGpu ? !with_gpus_ : !is_nic(device)) continue;
      if (auto added = add_device(device, kind); !added) return added.error();
    }
    for (const Kind kind : {Kind::kNuma, Kind::kGpu, Kind::kNic}) {
      if (!host_.all(kind).empty() || (kind == Kind::kGpu && !with_gpus_)) continue;
      return invalid(
          fmt::format("the XML has no {}; export it on the {} itself, with its PCI devices: lstopo "
                      "--of xml",
                      kind_name(kind), with_gpus_ ? "GPU machine" : "machine"));
    }
    if (with_gpus_) {
      if (auto added = add_nvlinks(); !added) return added.error();
    }
    if (auto right = with_gpus_ ? check(host_) : check_without_gpus(host_); !right) {
      return invalid(right.error().message +
                     "; the XML must come from the machine itself, with its PCI devices");
    }
    return std::move(host_);
  }

 private:
  // What is above a device or a switch, and the speed of the link to it.
  struct Above {
    VertexId parent = kNone;
    double gigabytes = 0;  // per second
  };

  static bool is_nic(hwloc_obj_t device) {
    if (device->attr->pcidev.class_id >> 8 != 0x02) return false;
    for (hwloc_obj_t one = device->io_first_child; one != nullptr; one = one->next_sibling) {
      if (is_network(one) || is_openfabrics(one)) return true;
    }
    return false;
  }

  Result<VertexId> add(Kind kind, const std::string& name) {
    // Ports of one card may have the same name; each vertex needs its own.
    std::string unique = name;
    for (int i = 2; host_.find(unique) != kNone; ++i) unique = fmt::format("{}#{}", name, i);
    host_.vertices.push_back({kind, std::move(unique)});
    if (auto few = check_bounds(host_); !few) return few.error();
    return static_cast<VertexId>(host_.vertices.size() - 1);
  }

  Outcome add_numa_nodes() {
    hwloc_obj_t node = nullptr;
    while ((node = hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
      const auto added = add(Kind::kNuma, fmt::format("numa{}", node->os_index));
      if (!added) return added.error();
      numa_[node->os_index] = *added;
    }
    for (const auto& [a, from] : numa_) {
      for (const auto& [b, to] : numa_) {
        if (a != b) host_.links.push_back({from, to, Bus::kSocket, kSocketSpeed, true});
      }
    }
    return Unit{};
  }

  // The NUMA node that the device is nearest to. The first of several; number 0 for devices of
  // processors without memory of their own.
  VertexId numa_of(hwloc_obj_t device) const {
    const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology_, device);
    const int node =
        near != nullptr && near->nodeset != nullptr ? hwloc_bitmap_first(near->nodeset) : -1;
    const auto found = numa_.find(static_cast<unsigned>(std::max(node, 0)));
    return found != numa_.end() ? found->second : kNone;
  }

  // The nearest switch above, else the NUMA node. A bridge that leads to one place only is a part
  // of the link, whose speed is that of its slowest part; `gigabytes` is the speed of its lowest
  // part.
  Result<Above> above(hwloc_obj_t object, double gigabytes) {
    for (hwloc_obj_t bridge = object->parent; bridge != nullptr && bridge->type == HWLOC_OBJ_BRIDGE;
         bridge = bridge->parent) {
      if (is_switch(bridge)) {
        const auto parent = switch_of(bridge);
        if (!parent) return parent.error();
        return Above{*parent, gigabytes};
      }
      if (!is_pci_bridge(bridge)) continue;
      const double part = bridge->attr->bridge.upstream.pci.linkspeed;
      if (part > 0 && (gigabytes <= 0 || part < gigabytes)) gigabytes = part;
    }
    return Above{numa_of(object), gigabytes};
  }

  Outcome add_device(hwloc_obj_t device, Kind kind) {
    const auto to = above(device, device->attr->pcidev.linkspeed);
    if (!to) return to.error();
    const auto id = add(kind, name_of(device, kind));
    if (!id) return id.error();
    return join(*id, *to);
  }

  // Whether it is the upper end of a PCIe switch: it has several bridges or devices below.
  static bool is_switch(hwloc_obj_t bridge) {
    return is_pci_bridge(bridge) && bridge->io_arity > 1;
  }

  Result<VertexId> switch_of(hwloc_obj_t bridge) {
    const auto known = switches_.find(bridge);
    if (known != switches_.end()) return known->second;
    const auto& pci = bridge->attr->bridge.upstream.pci;
    const auto to = above(bridge, pci.linkspeed);
    if (!to) return to.error();
    const auto id =
        add(Kind::kSwitch,
            fmt::format("pcie{:04x}:{:02x}", static_cast<unsigned>(pci.domain), unsigned{pci.bus}));
    if (!id) return id;
    switches_[bridge] = *id;
    if (auto joined = join(*id, *to); !joined) return joined.error();
    return id;
  }

  Outcome join(VertexId id, const Above& to) {
    Vertex& vertex = host_.vertices[id];
    if (to.parent == kNone) return Unit{};  // check() names the vertex
    if (!(to.gigabytes > 0 && to.gigabytes <= kMaxSpeed / kGiga)) {
      return invalid(
          fmt::format("{} \"{}\" has pci_link_speed {}; must be above 0 GB/s, and at most 1e6: "
                      "export the XML on "
                      "the machine as root, or describe the machine in JSON",
                      kind_name(vertex.kind), vertex.name, to.gigabytes));
    }
    vertex.under = to.parent;
    host_.links.push_back({id, to.parent, Bus::kPcie, to.gigabytes * kGiga});
    host_.links.push_back({to.parent, id, Bus::kPcie, to.gigabytes * kGiga});
    return Unit{};
  }

  Outcome add_nvlinks() {
    unsigned count = 1;
    hwloc_distances_s* matrix = nullptr;
    if (hwloc_distances_get_by_name(topology_, "NVLinkBandwidth", &count, &matrix, 0) != 0 ||
        count == 0) {
      return Unit{};
    }
    // Merges the ports of the NVSwitches to one. It refuses matrices without ports.
    hwloc_distances_transform(topology_, matrix, HWLOC_DISTANCES_TRANSFORM_MERGE_SWITCH_PORTS,
                              nullptr, 0);
    auto added = add_nvlinks_of(*matrix);
    hwloc_distances_release(topology_, matrix);
    return added;
  }

  Outcome add_nvlinks_of(const hwloc_distances_s& matrix) {
    std::vector<VertexId> ends;
    for (unsigned i = 0; i < matrix.nbobjs; ++i) {
      const auto end = nvlink_end(matrix.objs[i]);
      if (!end) return end.error();
      ends.push_back(*end);
    }
    std::size_t links = 0;  // each direction is one
    for (unsigned i = 0; i < matrix.nbobjs; ++i) {
      for (unsigned j = 0; j < matrix.nbobjs; ++j) {
        const auto megabytes = matrix.values[i * matrix.nbobjs + j];
        const VertexId from = ends[i], to = ends[j];
        if (megabytes == 0 || from == kNone || to == kNone || from == to) continue;
        const double speed = static_cast<double>(megabytes) * kMega;
        if (speed > kMaxSpeed) {
          return invalid(fmt::format(
              "the NVLinks from {} to {} have {} MB/s; must be at most 1e9: export the XML again",
              host_.vertices[from].name, host_.vertices[to].name, megabytes));
        }
        if (++links > 2 * kMaxNvlinks) {
          return invalid(
              fmt::format("the machine has more than {} NVLinks; describe it in JSON "
                          "without some of them",
                          kMaxNvlinks));
        }
        host_.links.push_back({from, to, Bus::kNvlink, speed});
      }
    }
    return Unit{};
  }

  // A GPU by the name of its NVML device or by its PCI device, or an NVSwitch; kNone for others.
  Result<VertexId> nvlink_end(hwloc_obj_t object) {
    if (object == nullptr) return kNone;
    if (view(object->subtype) == "NVSwitch") return add(Kind::kNvswitch, "nvswitch");
    if (object->type == HWLOC_OBJ_OS_DEVICE) object = object->parent;
    if (object == nullptr || object->type != HWLOC_OBJ_PCI_DEVICE) return kNone;
    const VertexId id = host_.find(name_of(object, Kind::kGpu));
    return id != kNone && host_.vertices[id].kind == Kind::kGpu ? id : kNone;
  }

  hwloc_topology_t topology_;
  bool with_gpus_;
  Host host_;
  std::map<unsigned, VertexId> numa_;  // by the number of the operating system
  std::map<hwloc_obj_t, VertexId> switches_;
};

Error unreadable() {
  return invalid("hwloc cannot read this XML; export it again: lstopo --of xml");
}

Result<Host> load(const std::string& xml, Devices devices) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return invalid("hwloc has no memory");
  const TopologyHandle topology(made);
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_set_xmlbuffer(made, xml.c_str(), static_cast<int>(xml.size() + 1)) != 0 ||
      hwloc_topology_load(made) != 0) {
    return unreadable();
  }
  return TopologyReader(made, devices).read();
}

// What the child process does: reads the text, and writes why it is refused.
[[noreturn]] void try_to_load(const std::string& xml, Devices devices, int out) {
  // What hwloc says about damaged XML concerns its own code.
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGALRM}) std::signal(signal, SIG_DFL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::alarm(kMostSeconds);
  const auto host = load(xml, devices);
  if (host) ::_exit(0);
  // The pipe holds more than a message, so this does not wait.
  const std::string message = host.error().message.substr(0, PIPE_BUF);
  const bool is_written =
      ::write(out, message.data(), message.size()) == static_cast<ssize_t>(message.size());
  ::_exit(is_written ? kRefusedXml : 1);
}

// Reads the text in a child process. Some damaged XML makes hwloc 2.9 use addresses that are not
// its own, and it leaks memory when it refuses any.
Outcome try_in_child(const std::string& xml, Devices devices) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return unreadable();
  const pid_t child = ::fork();
  if (child == 0) try_to_load(xml, devices, ends[1]);
  ::close(ends[1]);
  std::string message(PIPE_BUF, '\0');
  int status = -1;
  ssize_t got = 0;
  if (child > 0) {
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    got = ::read(ends[0], message.data(), message.size());
  }
  ::close(ends[0]);
  if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return Unit{};
  if (child < 0 || got <= 0 || !WIFEXITED(status) || WEXITSTATUS(status) != kRefusedXml) {
    return unreadable();
  }
  message.resize(static_cast<std::size_t>(got));
  return invalid(message);
}

}  // namespace

Result<Host> read_hwloc(std::string_view xml, Devices devices) {
  if (xml.size() > kMaxXmlBytes) {
    return invalid(fmt::format("{} bytes of XML: at most {}", xml.size(), kMaxXmlBytes));
  }
  const std::string text(xml);
  if (auto fine = try_in_child(text, devices); !fine) return fine.error();
  return load(text, devices);
}

#else

Result<Host> read_hwloc(std::string_view, Devices) {
  return invalid("this build has no hwloc, which reads XML; describe the machine in JSON");
}

#endif

}  // namespace tally::host
