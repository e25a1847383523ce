#include "integrations/python/src/machine/layout.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "gpu_bridge/nccl_api/library.h"

namespace tally::python {
namespace {

Error none(std::string why) {
  return {Status::kUnsupported, std::move(why)};
}

Result<std::array<std::int32_t, 3>> device_of(const cuda::Driver& driver, cuda::Context context) {
  const cuda::CurrentContext current(driver, context);
  cuda::Device device = 0;
  auto got = cuda::outcome(driver, "cuCtxGetDevice", driver.ctx_get_device(&device));
  std::array<std::int32_t, 3> found{};
  std::size_t next = 0;
  for (const auto attribute :
       {cuda::Attribute::kPciDomainId, cuda::Attribute::kPciBusId, cuda::Attribute::kPciDeviceId}) {
    if (!got) break;
    got = cuda::outcome(driver, "cuDeviceGetAttribute",
                        driver.device_get_attribute(&found[next++], attribute, device));
  }
  if (!got) return got.error();
  return found;
}

}  // namespace

std::string FixedText::text() const {
  return {bytes_.begin(), std::find(bytes_.begin(), bytes_.end() - 1, '\0')};
}

std::string name_of_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{} {}", name.data(), boot);
}

RankFacts facts_of_rank(const std::string& host, const cuda::Driver& driver,
                        cuda::Context context) {
  RankFacts facts;
  facts.host = FixedText(host);
  const auto device = device_of(driver, context);
  if (device) {
    facts.device = *device;
  } else {
    facts.problem = FixedText(device.error().message);
  }
  if (const auto library = nccl::system_library(); !library) {
    facts.problem = FixedText(library.error().message);
  }
  return facts;
}

Result<MachineLayout> lay_out(std::span<const RankFacts> by_rank, std::uint32_t own_rank) {
  std::vector<host::Group> groups;
  MachineLayout layout;
  for (std::uint32_t rank = 0; rank < by_rank.size(); ++rank) {
    const RankFacts& facts = by_rank[rank];
    if (!facts.problem.empty()) return none(fmt::format("rank {}: {}", rank, facts.problem.text()));
    const auto of_host = std::find_if(groups.begin(), groups.end(), [&](const host::Group& group) {
      return by_rank[group.ring.front()].host.text() == facts.host.text();
    });
    host::Group& group = of_host != groups.end() ? *of_host : groups.emplace_back();
    for (const host::VertexId other : group.ring) {
      if (by_rank[other].device != facts.device) continue;
      return none(fmt::format("ranks {} and {} use one GPU: give each rank its own", other, rank));
    }
    if (rank == own_rank) {
      layout.group = static_cast<std::size_t>(&group - groups.data());
      layout.rank = static_cast<std::uint32_t>(group.ring.size());
    }
    group.ring.push_back(rank);
  }
  if (groups.size() == by_rank.size()) return none("no host has two ranks of the group");
  for (host::Group& group : groups) {
    for (const host::VertexId gpu : group.ring) {
      group.shares.push_back(
          {gpu, host::kNone, host::kNone, 1.0 / static_cast<double>(group.ring.size())});
    }
  }
  auto division = gpu::Division::make(groups);
  if (!division) return none(division.error().message);
  layout.division = std::move(division).value();
  return layout;
}

}  // namespace tally::python
