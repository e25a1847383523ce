#include "control/machine/topology.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "control/machine/cpu_claims.h"

#ifdef TALLY_HWLOC
#include <hwloc.h>
#endif

namespace tally::control {

#ifdef TALLY_HWLOC

struct Topology::Handle {
  hwloc_topology_t topology = nullptr;
  ~Handle() {
    if (topology != nullptr) hwloc_topology_destroy(topology);
  }
  hwloc_obj_t node(int number) const {
    return hwloc_get_numanode_obj_by_os_index(topology, static_cast<unsigned>(number));
  }
};

namespace {

// The NUMA node of the object's CPUs; kNoNode when they have several nodes or none.
int node_of(hwloc_obj_t object) {
  const bool one = object->nodeset != nullptr && hwloc_bitmap_weight(object->nodeset) == 1;
  return one ? hwloc_bitmap_first(object->nodeset) : kNoNode;
}

}  // namespace

std::unique_ptr<Topology> Topology::of(const std::string& xml, std::span<const int> cpus) {
  auto handle = std::make_unique<Handle>();
  if (hwloc_topology_init(&handle->topology) != 0) return nullptr;
  // These components start drivers of GPUs and displays, or read the names of all devices. That
  // takes long and adds nothing about NICs. Without "pci", hwloc finds devices in sysfs.
  for (const char* slow : {"cuda", "gl", "levelzero", "nvml", "opencl", "pci", "rsmi"}) {
    hwloc_topology_set_components(handle->topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, slow);
  }
  hwloc_topology_set_io_types_filter(handle->topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  const bool read =
      xml.empty() || hwloc_topology_set_xmlbuffer(handle->topology, xml.c_str(),
                                                  static_cast<int>(xml.size() + 1)) == 0;
  if (!read || hwloc_topology_load(handle->topology) != 0) return nullptr;
  std::unique_ptr<Topology> made(new Topology(std::move(handle)));
  made->describe(cpus);
  return made;
}

void Topology::describe(std::span<const int> cpus) {
  hwloc_topology_t all = handle_->topology;
  hwloc_obj_t core = nullptr;
  // Some machines report CPUs but no cores.
  const hwloc_obj_type_t type =
      hwloc_get_nbobjs_by_type(all, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  while ((core = hwloc_get_next_obj_by_type(all, type, core)) != nullptr) {
    Hardware::Core made;
    made.node = std::max(node_of(core), 0);
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(core->cpuset, cpu)) {
      if (std::find(cpus.begin(), cpus.end(), cpu) != cpus.end()) made.cpus.push_back(cpu);
    }
    if (!made.cpus.empty()) hardware_.cores.push_back(std::move(made));
  }
  hwloc_obj_t device = nullptr;
  while ((device = hwloc_get_next_osdev(all, device)) != nullptr) {
    if (device->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK || device->name == nullptr) continue;
    hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(all, device);
    const int node = parent != nullptr ? node_of(parent) : kNoNode;
    if (node != kNoNode) hardware_.nics[device->name] = node;
  }
}

bool Topology::bind(std::span<std::byte> memory, int node) const {
  const hwloc_obj_t object = handle_->node(node);
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size()) / page * page;
  if (object == nullptr || begin >= end) return false;
  return hwloc_set_area_membind(handle_->topology, reinterpret_cast<void*>(begin), end - begin,
                                object->nodeset, HWLOC_MEMBIND_BIND,
                                HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_MIGRATE) == 0;
}

void Topology::Near::at(int node) {
  const hwloc_obj_t object = topology_ != nullptr ? topology_->handle_->node(node) : nullptr;
  if (object == nullptr) return;
  changed_ |= hwloc_set_membind(topology_->handle_->topology, object->nodeset, HWLOC_MEMBIND_BIND,
                                HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) == 0;
}

Topology::Near::~Near() {
  if (!changed_) return;
  hwloc_topology_t all = topology_->handle_->topology;
  hwloc_set_membind(all, hwloc_topology_get_allowed_nodeset(all), HWLOC_MEMBIND_DEFAULT,
                    HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET);
}

#else

struct Topology::Handle {};

std::unique_ptr<Topology> Topology::of(const std::string&, std::span<const int>) {
  return nullptr;
}
void Topology::describe(std::span<const int>) {}
bool Topology::bind(std::span<std::byte>, int) const {
  return false;
}
void Topology::Near::at(int) {}
Topology::Near::~Near() = default;

#endif

Topology::Topology(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Topology::~Topology() = default;

std::unique_ptr<Topology> Topology::of_this_machine() {
  const auto cpus = usable_cpus();
  if (cpus.empty()) return nullptr;
  return of("", cpus);
}

}  // namespace tally::control
