#include "control/cli/doctor/verbs_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "dataplane/transport/verbs/device.h"

namespace tally::control::doctor {
namespace {

namespace verbs = transport::verbs;

struct CloseLibrary {
  void operator()(void* handle) const { ::dlclose(handle); }
};

// "1.14.44.0" of libibverbs.so.1.14.44.0. Only the file name has the version; 44 is that of
// rdma-core. Precondition: the library has been opened.
std::string version() {
  const std::unique_ptr<void, CloseLibrary> handle(
      ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD));
  link_map* map = nullptr;
  if (handle == nullptr || ::dlinfo(handle.get(), RTLD_DI_LINKMAP, &map) != 0) return "unknown";
  std::error_code failed;
  const auto file = std::filesystem::canonical(map->l_name, failed).filename().string();
  const auto at = file.find(".so.");
  return failed || at == std::string::npos ? "unknown" : file.substr(at + 4);
}

std::uint32_t bytes_of(ibv_mtu mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << static_cast<unsigned>(mtu) : 0;
}

VerbsDevice look_at(verbs::Api& api, ibv_device* device) {
  VerbsDevice seen{api.get_device_name(device), {}, {}};
  const verbs::Context context(api, api.open_device(device));
  ibv_device_attr attributes{};
  if (!context) {
    seen.failure = std::strerror(errno);
  } else if (const int error = api.query_device(context.get(), &attributes); error != 0) {
    seen.failure = std::strerror(error);
  }
  for (unsigned port = 1; seen.failure.empty() && port <= attributes.phys_port_cnt; ++port) {
    ibv_port_attr state{};
    const bool known = api.query_port(context.get(), static_cast<std::uint8_t>(port), &state) == 0;
    seen.active_mtus.push_back(known ? bytes_of(state.active_mtu) : 0);
  }
  return seen;
}

}  // namespace

Result<VerbsLibrary> open_verbs_library(const VerbsWish& wish) {
  const auto opened = verbs::system_api();
  if (!opened) return opened.error();
  verbs::Api& api = **opened;
  VerbsLibrary library{version(), {}, {}, {}};
  int count = 0;
  ibv_device** list = api.get_device_list(&count);
  for (int i = 0; list != nullptr && i < count; ++i) {
    library.devices.push_back(look_at(api, list[i]));
  }
  if (list != nullptr) api.free_device_list(list);
  const auto chosen = verbs::Device::open(api, {.device = wish.device, .host = wish.host});
  (chosen ? library.chosen : library.none_chosen) =
      chosen ? (*chosen)->choice().why : chosen.error().message;
  return library;
}

}  // namespace tally::control::doctor
