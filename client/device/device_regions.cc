#include "client/device/device_regions.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "client/device/keep_until_exit.h"
#include "client/device/unlocked.h"

namespace tally::client {

const DeviceRegion* DeviceRegions::find(const Region* region) const {
  const auto found = regions_.find(region);
  return found == regions_.end() ? nullptr : &found->second;
}

Result<DeviceRegion*> DeviceRegions::add(Lock& lock, const gpu::DeviceMemory& memory) {
  auto made = direct(memory);
  if (!made) {
    session_.log(0, fmt::format("CUDA region of {} bytes is staged (copied through pinned host "
                                "memory): {}",
                                memory.bytes, made.error().message));
    made = staged(lock, memory);
    if (!made) return made.error();
  }
  const Region* const region = made->region;
  return &regions_.emplace(region, std::move(made).value()).first->second;
}

// As a dma-buf, and otherwise by the address, which the kernel module nvidia-peermem makes known to
// adapters.
Result<DeviceRegion> DeviceRegions::direct(const gpu::DeviceMemory& memory) {
  const MemoryNeeds needs = session_.memory_needs();
  if (!needs.adapter || needs.shared) {
    return Error{Status::kUnsupported,
                 fmt::format("the session has transport {}, and only the adapters of transport "
                             "verbs reach memory of a device",
                             needs.transport)};
  }
  if (session_.gives_checksums()) {
    return Error{Status::kUnsupported,
                 "the session gives checksums, and the CPU makes them of host memory alone"};
  }
  DeviceRegion made{.memory = memory};
  made.needs_flush = gpu::needs_flush(driver_, memory.device);
  const auto add = [&](std::unique_ptr<Region> region, const std::string& how) -> Outcome {
    const auto added = session_.add_region(std::move(region));
    if (!added) return added.error();
    made.region = *added;
    session_.log(
        0, fmt::format("CUDA region of {} bytes: the adapter reaches it {}", memory.bytes, how));
    return Unit{};
  };
  const auto as_dmabuf = [&]() -> Outcome {
    const auto exported = gpu::export_dmabuf(driver_, memory);
    if (!exported) return exported.error();
    auto region = Region::dmabuf(exported->fd.get(), exported->offset, memory.bytes, memory.data);
    if (!region) return region.error();
    return add(std::move(region).value(), "as a dma-buf");
  };
  const Outcome exported = as_dmabuf();
  if (exported) return made;
  const std::string no_dmabuf = "no dma-buf: " + exported.error().message;
  const auto by_address = add(Region::device(memory.data, memory.bytes),
                              fmt::format("by nvidia-peermem ({})", no_dmabuf));
  if (by_address) return made;
  return Error{Status::kUnsupported,
               fmt::format("{}; no nvidia-peermem: {}", no_dmabuf, by_address.error().message)};
}

Result<DeviceRegion> DeviceRegions::staged(Lock& lock, const gpu::DeviceMemory& memory) {
  if (auto room = session_.room_for(memory.bytes); !room) return room.error();
  auto region = [&] {
    const Unlocked unlocked(lock);  // it takes seconds for many GB
    return Region::allocate(memory.bytes);
  }();
  if (!region) return region.error();
  (*region)->pin();
  const auto added = session_.add_region(std::move(region).value());
  if (!added) return added.error();
  // Last, because memory must not be unmapped while it is pinned.
  auto pinned = [&] {
    const Unlocked unlocked(lock);
    return gpu::PinnedMemory::pin(driver_, memory.context, {(*added)->data(), memory.bytes});
  }();
  if (!pinned) {
    static_cast<void>(session_.remove_region(*added));
    return pinned.error();
  }
  return DeviceRegion{
      .memory = memory, .region = *added, .pinned = std::move(pinned).value(), .staged = true};
}

Outcome DeviceRegions::remove(Lock& lock, Region* region, bool in_use) {
  const auto found = regions_.find(region);
  found->second.removing = true;
  if (in_use) {
    keep_pinned(found->second);
  } else {
    const Unlocked unlocked(lock);
    found->second.pinned = {};
  }
  auto removed = session_.remove_region(region);
  if (removed) regions_.erase(found);
  return removed;
}

void DeviceRegions::keep_pinned() {
  for (auto& [region, device] : regions_) keep_pinned(device);
}

void DeviceRegions::keep_pinned(DeviceRegion& device) {
  struct Kept {
    Mapping mapping;
    gpu::PinnedMemory pinned;
  };
  if (!device.staged) return;
  keep_until_exit(
      std::make_unique<Kept>(Kept{device.region->take_mapping(), std::move(device.pinned)}));
}

}  // namespace tally::client
