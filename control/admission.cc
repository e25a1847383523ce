#include "control/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "dataplane/protocol/cut.h"
#include "dataplane/protocol/operation_table.h"

namespace tally::control {
namespace {

Error refused(std::string message) {
  return Error{Status::kRefused, std::move(message)};
}

// Takes the same time for every wrong token of the right length.
bool same_token(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace

Admission::Admission(AdmissionLimits limits, std::vector<ConfiguredJob> configured)
    : limits_(limits), configured_(std::move(configured)) {}

const ConfiguredJob* Admission::configured(const std::string& name) const {
  const auto found = std::find_if(configured_.begin(), configured_.end(),
                                  [&](const ConfiguredJob& job) { return job.name == name; });
  return found == configured_.end() ? nullptr : &*found;
}

Forming* Admission::current(const std::string& name) const {
  const auto found = std::find_if(formings_.begin(), formings_.end(), [&](const auto& forming) {
    return forming->name == name && !forming->over;
  });
  return found == formings_.end() ? nullptr : found->get();
}

std::uint32_t Admission::free_slot() const {
  std::uint32_t slot = 0;
  while (std::any_of(formings_.begin(), formings_.end(),
                     [&](const auto& forming) { return forming->slot == slot; })) {
    ++slot;
  }
  return slot;
}

std::uint32_t Admission::shards_of_a_job() const {
  return std::min(limits_.shards, limits_.shards_per_job);
}

// By the weights of the jobs that they have, in order.
std::vector<std::uint32_t> Admission::least_used_shards() const {
  std::vector<std::uint64_t> load(limits_.shards);
  for (const auto& forming : formings_) {
    for (const std::uint32_t shard : forming->shards) load[shard] += forming->weight;
  }
  std::vector<std::uint32_t> shards(limits_.shards);
  std::iota(shards.begin(), shards.end(), 0U);
  std::stable_sort(shards.begin(), shards.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return load[a] < load[b]; });
  shards.resize(shards_of_a_job());
  std::sort(shards.begin(), shards.end());
  return shards;
}

std::uint32_t Forming::tree_of(std::uint32_t shard) const {
  const auto found = std::find(shards.begin(), shards.end(), shard);
  return found == shards.end() ? protocol::kNoTree
                               : static_cast<std::uint32_t>(found - shards.begin());
}

Result<Admission::Admitted> Admission::admit(const Applicant& applicant, std::uint32_t session) {
  const ConfiguredJob* configuration = configured(applicant.job);
  Forming* forming = current(applicant.job);
  const std::string* token = forming != nullptr         ? &forming->token
                             : configuration != nullptr ? &configuration->token
                                                        : nullptr;
  if (token != nullptr && !same_token(*token, applicant.token)) {
    return refused(fmt::format("job \"{}\": wrong token", applicant.job));
  }
  const bool is_new = forming == nullptr;
  if (is_new) {
    auto formed = form(applicant, configuration);
    if (!formed) return formed.error();
    forming = *formed;
  }
  if (applicant.ranks != forming->ranks()) {
    return refused(fmt::format("job \"{}\" has {} ranks, rank {} says {}", applicant.job,
                               forming->ranks(), applicant.rank, applicant.ranks));
  }
  if (auto room = room_for_session(applicant); !room) {
    if (is_new) release(*forming);
    return room.error();
  }
  std::uint32_t& member = forming->members[applicant.rank];
  if (member != kNobody) {
    return refused(
        fmt::format("job \"{}\": rank {} is taken by session {}; is another run of this "
                    "job still alive?",
                    applicant.job, applicant.rank, member));
  }
  member = session;
  ++forming->joined;
  return Admitted{forming, is_new};
}

Result<Forming*> Admission::form(const Applicant& applicant, const ConfiguredJob* configuration) {
  const std::string& name = applicant.job;
  if (configuration == nullptr && !limits_.open_jobs) {
    return refused(
        fmt::format("job \"{}\" is not configured at this node, and open_jobs is false: "
                    "add it to the configuration",
                    name));
  }
  const std::uint64_t table_bytes =
      shards_of_a_job() * protocol::OperationTable::footprint(
                              static_cast<std::uint16_t>(applicant.ranks), limits_.credit);
  if (auto room = room_for(applicant, table_bytes); !room) return room.error();
  if (configuration != nullptr && configuration->ranks != 0 &&
      configuration->ranks != applicant.ranks) {
    return refused(fmt::format("job \"{}\" is configured with {} ranks, rank {} says {}", name,
                               configuration->ranks, applicant.rank, applicant.ranks));
  }
  auto forming = std::make_unique<Forming>();
  forming->name = name;
  forming->token = configuration != nullptr ? configuration->token : applicant.token;
  forming->slot = free_slot();
  forming->epoch = ++epochs_[name];
  forming->weight = configuration != nullptr ? configuration->weight : 1;
  forming->shards = least_used_shards();
  forming->members.assign(applicant.ranks, kNobody);
  forming->table_bytes = table_bytes;
  formings_.push_back(std::move(forming));
  return formings_.back().get();
}

// Formings that are over hold memory until their last member has gone, but no place among the jobs.
Outcome Admission::room_for(const Applicant& applicant, std::uint64_t table_bytes) const {
  const auto running = std::count_if(formings_.begin(), formings_.end(),
                                     [](const auto& forming) { return !forming->over; });
  if (running >= static_cast<std::ptrdiff_t>(limits_.max_jobs)) {
    return refused(fmt::format("job \"{}\": the node has {} jobs and max_jobs is {}", applicant.job,
                               running, limits_.max_jobs));
  }
  if (applicant.ranks > limits_.max_ranks) {
    return refused(fmt::format("job \"{}\": {} ranks, max_ranks is {}", applicant.job,
                               applicant.ranks, limits_.max_ranks));
  }
  std::uint64_t reserved = 0;
  for (const auto& forming : formings_) reserved += forming->table_bytes;
  if (reserved + table_bytes > limits_.max_table_bytes) {
    return refused(
        fmt::format("job \"{}\": its {} ranks with a credit of {} take {} bytes on {} shards; "
                    "{} of {} are taken: lower shards.credit, or end other jobs",
                    applicant.job, applicant.ranks, limits_.credit, table_bytes, shards_of_a_job(),
                    reserved, limits_.max_table_bytes));
  }
  return Unit{};
}

// The kernel's limits are the whole node's: what passes them would hurt every job.
Outcome Admission::room_for_session(const Applicant& applicant) const {
  constexpr std::uint64_t kOwnDescriptors = 128;  // the node's, and connections without a session
  constexpr std::uint64_t kDomainDescriptors = 9;
  std::uint64_t sessions = 0;
  for (const auto& forming : formings_) sessions += forming->joined;
  // By transport fabric an endpoint and a connection of each shard, and its domain for the job.
  const std::uint64_t shards = shards_of_a_job();
  const std::uint64_t each = limits_.network ? 1 + 2 * shards : 2 + shards;
  const std::uint64_t domains =
      limits_.network ? kDomainDescriptors * shards * formings_.size() : 0;
  if ((sessions + 1) * each + domains + kOwnDescriptors > limits_.max_descriptors) {
    return refused(fmt::format(
        "job \"{}\": the node has {} sessions of {} descriptors each, and may open {} files: raise "
        "its limit (RLIMIT_NOFILE)",
        applicant.job, sessions, each, limits_.max_descriptors));
  }
  return Unit{};
}

bool Admission::leave(Forming& forming, std::uint32_t rank) {
  forming.members[rank] = kNobody;
  forming.over = true;
  return --forming.joined == 0;
}

void Admission::release(Forming& forming) {
  const std::string name = forming.name;
  std::erase_if(formings_, [&](const auto& other) { return other.get() == &forming; });
  const bool known = std::any_of(formings_.begin(), formings_.end(),
                                 [&](const auto& other) { return other->name == name; });
  if (!known) epochs_.erase(name);  // nobody is left who could hold an old epoch
}

Outcome Admission::reserve(Forming& forming, std::uint64_t bytes) const {
  if (forming.regions >= limits_.max_regions) {
    return refused(
        fmt::format("job \"{}\" has {} regions and limits.max_regions is {}: register "
                    "fewer, larger ones, or raise it",
                    forming.name, forming.regions, limits_.max_regions));
  }
  std::uint64_t mappings = 0, node_bytes = 0;
  for (const auto& other : formings_) {
    mappings += other->regions + other->joined;
    node_bytes += other->region_bytes;
  }
  if (mappings >= limits_.max_mappings) {
    return refused(
        fmt::format("job \"{}\": the node has {} mappings for the regions of all jobs "
                    "and may have {}: raise vm.max_map_count (half of it is for them)",
                    forming.name, mappings, limits_.max_mappings));
  }
  if (bytes > limits_.max_region_bytes - forming.region_bytes) {
    return refused(fmt::format(
        "job \"{}\" has {} bytes in {} regions; {} more pass limits.max_region_bytes {}",
        forming.name, forming.region_bytes, forming.regions, bytes, limits_.max_region_bytes));
  }
  if (bytes > limits_.node_region_bytes - node_bytes) {
    return refused(
        fmt::format("job \"{}\": all jobs of the node have registered {} bytes; {} more pass "
                    "limits.node_region_bytes {}",
                    forming.name, node_bytes, bytes, limits_.node_region_bytes));
  }
  forming.region_bytes += bytes;
  ++forming.regions;
  return Unit{};
}

void Admission::give_back(Forming& forming, std::uint64_t bytes) {
  forming.region_bytes -= bytes;
  --forming.regions;
}

}  // namespace tally::control
