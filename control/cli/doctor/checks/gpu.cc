// Whether RDMA devices can reach GPU memory without a copy through the machine's memory.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "control/cli/doctor/checks/checks.h"
#include "control/cli/doctor/rdma.h"

namespace tally::control::doctor {
namespace {

std::size_t nvidia_gpus(const Files& files) {
  std::size_t gpus = 0;
  for (const std::string& address : files.list(kPci)) {
    const auto vendor = files.read(fmt::format("{}/{}/vendor", kPci, address));
    const auto pci_class = files.read(fmt::format("{}/{}/class", kPci, address));
    if (!vendor || !pci_class || *vendor != "0x10de") continue;
    gpus += pci_class->starts_with("0x03") ? 1 : 0;  // a display or 3D controller
  }
  // A container may show its GPUs but not the PCI bus.
  return std::max(gpus, files.list("/proc/driver/nvidia/gpus").size());
}

// Linux 5.12 introduced dma-buf for RDMA devices.
bool kernel_has_dma_buf(const std::string& release) {
  unsigned major = 0;
  unsigned minor = 0;
  const char* const end = release.data() + release.size();
  const auto first = std::from_chars(release.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return false;
  if (std::from_chars(first.ptr + 1, end, minor).ec != std::errc()) return false;
  return major > 5 || (major == 5 && minor >= 12);
}

// The peer-memory module of NVIDIA's driver, or its older, separate module; empty when neither is
// loaded.
std::string peer_module(const Files& files) {
  for (const char* module : {"nvidia_peermem", "nv_peer_mem"}) {
    if (files.exists(fmt::format("/sys/module/{}", module))) return module;
  }
  return {};
}

Finding without_peer_module(const Files& files) {
  const std::string what = "GPU memory for RDMA";
  const auto driver = files.read("/proc/driver/nvidia/version");
  if (!driver) {
    return warning(
        what, "NVIDIA's driver is not loaded",
        "install it (package nvidia-open-kernel-dkms, or nvidia-driver); modprobe nvidia");
  }
  const auto release = files.read("/proc/sys/kernel/osrelease");
  if (!release) return unknown(what, release.error());
  const bool kernel = kernel_has_dma_buf(*release);
  const bool open = driver->find("Open Kernel Module") != std::string::npos;
  if (kernel && open) {
    return ok(what, fmt::format("by dma-buf (kernel {}, NVIDIA's open modules)", *release));
  }
  const std::string value =
      fmt::format("nvidia_peermem is not loaded, and dma-buf is not possible: {}",
                  kernel ? "it needs NVIDIA's open kernel modules, and these are the closed ones"
                         : fmt::format("kernel {} is older than 5.12", *release));
  return warning(what, value,
                 "modprobe nvidia_peermem (and a line with it in /etc/modules-load.d/tally.conf)");
}

}  // namespace

Findings check_gpu(const Machine& machine) {
  const std::size_t gpus = nvidia_gpus(machine.files);
  if (gpus == 0) return {ok("GPU", "no NVIDIA GPU here")};
  const std::string seen = fmt::format("{} of NVIDIA", gpus);
  if (rdma_devices(machine.files).empty()) {
    return {ok("GPU", seen + "; no RDMA device, so gradients go through the machine's memory")};
  }
  Findings findings = {ok("GPU", seen)};
  const std::string module = peer_module(machine.files);
  findings.push_back(module.empty() ? without_peer_module(machine.files)
                                    : ok("GPU memory for RDMA", module + " is loaded"));
  return findings;
}

}  // namespace tally::control::doctor
