#include "control/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "control/same_token.h"
#include "dataplane/protocol/aggregator.h"

namespace tally::control {
namespace {

// Measured with 4 workers and 0 to 4 helpers at 50 to 100 Mbit/s (perf/limits/cluster.py): half of
// it is too little at 50, where 3 helpers take 1.13 to 1.15 of the closed form's time, not 1.02.
constexpr double kQueueSeconds = 0.04;

// Of the bytes of large operations; else of those of the largest that the tree carries.
double share_of(const protocol::Plan& plan, std::uint32_t tree) {
  for (auto size = plan.classes.rbegin(); size != plan.classes.rend(); ++size) {
    const auto found = std::lower_bound(size->trees.begin(), size->trees.end(), tree);
    if (found == size->trees.end() || *found != tree) continue;
    return size->weights[static_cast<std::size_t>(found - size->trees.begin())] /
           static_cast<double>(protocol::kWeightUnit);
  }
  return 0;
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

std::uint32_t Admission::credit_of(std::uint32_t ranks) const {
  const std::uint32_t least = std::min(kLeastCredit, limits_.credit);
  return std::clamp(limits_.job_credit / ranks, least, limits_.credit);
}

std::uint32_t Admission::shards_of_a_job() const {
  return std::min(limits_.shards, limits_.shards_per_job);
}

// By the weights of the jobs that they have. One for each lane, of the rail that it is to have;
// without rails any, in order.
std::vector<std::uint32_t> Admission::least_used_shards(
    std::span<const std::uint32_t> rail_of_lane) const {
  std::vector<std::uint64_t> load(limits_.shards);
  for (const auto& forming : formings_) {
    for (const std::uint32_t shard : forming->shards) load[shard] += forming->weight;
  }
  std::vector<std::uint32_t> shards(limits_.shards);
  std::iota(shards.begin(), shards.end(), 0U);
  std::stable_sort(shards.begin(), shards.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return load[a] < load[b]; });
  std::vector<std::uint32_t> chosen;
  for (const std::uint32_t rail : rail_of_lane) {
    auto next = std::find_if(shards.begin(), shards.end(), [&](std::uint32_t shard) {
      return rails_.empty() || rail_of(shard, rails_) == rail;
    });
    if (next == shards.end()) next = shards.begin();  // a rail that has gone since the plan
    chosen.push_back(*next);
    shards.erase(next);
  }
  if (rails_.empty()) std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::uint32_t Forming::lane_of(std::uint32_t shard) const {
  const auto found = std::find(shards.begin(), shards.end(), shard);
  return found == shards.end() ? kNoLane : static_cast<std::uint32_t>(found - shards.begin());
}

std::vector<std::uint32_t> Forming::trees() const {
  std::vector<std::uint32_t> trees;
  for (const protocol::Vertex& vertex : vertices) trees.push_back(vertex.tree);
  return trees;
}

std::uint64_t Forming::window_at(std::uint32_t shard) const {
  if (rate == 0) return UINT64_MAX;
  double bytes = 0;
  for (const protocol::Vertex& vertex : vertices_at(shard)) {
    bytes += vertex.children() * share_of(plan, vertex.tree) * static_cast<double>(rate);
  }
  return static_cast<std::uint64_t>(bytes * kQueueSeconds);
}

Result<Admission::Admitted> Admission::admit(const Applicant& applicant, std::uint32_t session) {
  const ConfiguredJob* configuration = configured(applicant.job);
  Forming* forming = current(applicant.job);
  const bool is_new = forming == nullptr && applicant.epoch == 0;
  if (applicant.epoch != 0) {
    auto found = placed_for(applicant);
    if (!found) return found.error();
    forming = *found;
  }
  const std::string* token = forming != nullptr         ? &forming->token
                             : configuration != nullptr ? &configuration->token
                                                        : nullptr;
  if (token != nullptr && !same_token(*token, applicant.token)) {
    return refused(fmt::format("job \"{}\": wrong token", applicant.job));
  }
  if (forming != nullptr && forming->placed && applicant.epoch == 0) {
    return refused(
        fmt::format("job \"{}\" is spread over {} nodes: its ranks ask the coordinator first "
                    "(job.open), and bring the epoch that it says",
                    applicant.job, forming->nodes));
  }
  if (is_new) {
    auto formed = form(applicant, configuration);
    if (!formed) return formed.error();
    forming = *formed;
  }
  return seat(*forming, is_new, applicant, session);
}

Result<Forming*> Admission::placed_for(const Applicant& applicant) const {
  for (const auto& forming : formings_) {
    if (!forming->placed || forming->name != applicant.job || forming->epoch != applicant.epoch) {
      continue;
    }
    if (!forming->over) return forming.get();
  }
  return Error{Status::kStaleEpoch,
               fmt::format("job \"{}\" has no place here in epoch {}, or no longer: ask the "
                           "coordinator again (job.open)",
                           applicant.job, applicant.epoch)};
}

Result<Admission::Admitted> Admission::seat(Forming& forming, bool is_new,
                                            const Applicant& applicant, std::uint32_t session) {
  if (applicant.ranks != forming.ranks()) {
    return refused(fmt::format("job \"{}\" has {} ranks, rank {} says {}", applicant.job,
                               forming.ranks(), applicant.rank, applicant.ranks));
  }
  if (auto room = room_for_session(applicant); !room) {
    if (is_new) release(forming);
    return room.error();
  }
  const auto number = member_of(forming, applicant);
  if (!number) return number.error();
  std::uint32_t& member = forming.members[*number];
  if (member != kNobody) {
    return refused(
        fmt::format("job \"{}\": rank {} is taken by session {}; is another run of this "
                    "job still alive?",
                    applicant.job, *number, member));
  }
  member = session;
  ++forming.joined;
  return Admitted{&forming, is_new, *number};
}

Result<Forming*> Admission::form(const Applicant& applicant, const ConfiguredJob* configuration) {
  const std::string& name = applicant.job;
  if (configuration == nullptr && !limits_.open_jobs) {
    return refused(
        fmt::format("job \"{}\" is not configured at this node, and open_jobs is false: "
                    "add it to the configuration",
                    name));
  }
  if (configuration != nullptr && configuration->ranks != 0 &&
      configuration->ranks != applicant.ranks) {
    return refused(fmt::format("job \"{}\" is configured with {} ranks, rank {} says {}", name,
                               configuration->ranks, applicant.rank, applicant.ranks));
  }
  const std::uint32_t lanes = usable_shards(rails_, shards_of_a_job());
  const auto trees = over_rails(rails_, lanes, protocol::kWeightUnit);
  std::vector<std::uint32_t> rail_of_lane, weights;
  for (const RailTree& tree : trees) {
    rail_of_lane.push_back(tree.rail);
    weights.push_back(tree.weight);
  }
  auto forming = std::make_unique<Forming>();
  forming->name = name;
  forming->members.assign(applicant.ranks, kNobody);
  forming->token = configuration != nullptr ? configuration->token : applicant.token;
  forming->weight = configuration != nullptr ? configuration->weight : 1;
  forming->plan = protocol::weighted_plan(weights, limits_.split_bytes);
  forming->rate = speed_of(rails_) / applicant.ranks;  // the NICs carry every rank's bytes
  for (std::uint32_t tree = 0; tree < lanes; ++tree) {
    forming->vertices.push_back(protocol::star(tree, forming->ranks()));
  }
  const auto added = add(std::move(forming), rail_of_lane);
  if (added) (*added)->epoch = ++epochs_[name];
  return added;
}

Result<Forming*> Admission::add(std::unique_ptr<Forming> forming,
                                std::span<const std::uint32_t> rail_of_lane) {
  forming->credit = credit_of(forming->ranks());
  forming->table_bytes = table_bytes(*forming, static_cast<std::uint32_t>(rail_of_lane.size()));
  forming->slot_bytes = slot_bytes(*forming, static_cast<std::uint32_t>(rail_of_lane.size()));
  if (auto room = room_for(*forming); !room) return room.error();
  if (auto room = room_for_slots(*forming); !room) return room.error();
  forming->slot = free_slot();
  forming->shards = least_used_shards(rail_of_lane);
  formings_.push_back(std::move(forming));
  return formings_.back().get();
}

// Where the plan does not say, in turn those that are in use.
std::vector<std::uint32_t> Admission::rails_of_lanes(const Placement& placement,
                                                     std::uint32_t lanes) const {
  std::vector<std::uint32_t> rails = placement.rails;
  if (!rails.empty() || rails_.empty()) {
    rails.resize(lanes);
    return rails;
  }
  const auto used = rails_in_use(rails_);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) rails.push_back(used[lane % used.size()]);
  return rails;
}

// The coordinator has checked who asks; this node says whether there is room.
Result<Admission::Placed> Admission::place(const Placement& placement, Nanos now) {
  const auto trees = static_cast<std::uint32_t>(placement.vertices.size());
  const std::uint32_t lanes = std::min(trees, shards_of_a_job());
  if (auto fits = serves(placement, lanes); !fits) return fits.error();
  Forming* before = current(placement.job);
  // Its ranks come over to this one: both are here, until they have left that.
  if (before != nullptr && before->placed && before->epoch == placement.follows) before = nullptr;
  if (before != nullptr && (!before->placed || before->joined > 0)) {
    return refused(
        fmt::format("job \"{}\" runs here already, in epoch {} with {} of {} ranks; is another "
                    "run of this job still alive?",
                    placement.job, before->epoch, before->joined_ranks(), before->ranks()));
  }
  std::uint32_t& last = epochs_[placement.job];
  if (placement.epoch <= last) {
    return refused(fmt::format("job \"{}\": epoch {} is over here, where {} was the last",
                               placement.job, placement.epoch, last));
  }
  if (before != nullptr) before->over = true;
  auto wanted = std::make_unique<Forming>();
  wanted->name = placement.job;
  wanted->members.assign(placement.ranks + placement.below.size(), kNobody);
  wanted->token = placement.token;
  wanted->epoch = placement.epoch;
  wanted->weight = placement.weight;
  wanted->plan = placement.plan;
  wanted->plan_epoch = placement.plan_epoch;
  wanted->vertices = placement.vertices;
  wanted->below = placement.below;
  wanted->above = placement.above;
  wanted->slots = placement.slots;
  wanted->stands_in_for = placement.stands_in_for;
  wanted->nodes = placement.nodes;
  wanted->rate = placement.rate;
  wanted->placed = true;
  wanted->placement = placement.id;
  wanted->placed_at = now;
  const auto added = add(std::move(wanted), rails_of_lanes(placement, lanes));
  if (!added) {
    if (before != nullptr) before->over = false;
    if (last == 0) epochs_.erase(placement.job);
    return added.error();
  }
  last = placement.epoch;
  highest_epoch_ = std::max(highest_epoch_, last);
  return Placed{*added, before};
}

Forming* Admission::placed(std::uint64_t placement) const {
  const auto found = std::find_if(formings_.begin(), formings_.end(), [&](const auto& forming) {
    return forming->placed && forming->placement == placement;
  });
  return found == formings_.end() || placement == 0 ? nullptr : found->get();
}

std::vector<Forming*> Admission::unclaimed(Nanos now) const {
  std::vector<Forming*> some;
  for (const auto& forming : formings_) {
    if (forming->unclaimed() && now - forming->placed_at >= kPlacementPatience) {
      some.push_back(forming.get());
    }
  }
  return some;
}

// At most: not every shard has to do with all neighbours.
std::uint64_t Admission::table_bytes(const Forming& forming, std::uint32_t lanes) const {
  protocol::JobSpec spec{.ranks = forming.ranks(), .credit = forming.credit};
  spec.branches = static_cast<std::uint16_t>(forming.below.size());
  spec.parents = static_cast<std::uint16_t>(forming.above.size());
  spec.slots = forming.slots;
  std::uint64_t bytes = 0;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    spec.vertices.clear();
    for (std::size_t i = lane; i < forming.vertices.size(); i += lanes) {
      spec.vertices.push_back(forming.vertices[i]);
    }
    bytes += protocol::Aggregator::footprint(spec);
  }
  return bytes;
}

// Formings that are over hold memory until their last member has gone, but no place among the jobs.
Outcome Admission::room_for(const Forming& wanted) const {
  const std::string& name = wanted.name;
  const auto running = std::count_if(formings_.begin(), formings_.end(), [&](const auto& forming) {
    return !forming->over && forming->name != name;
  });
  if (running >= static_cast<std::ptrdiff_t>(limits_.max_jobs)) {
    return refused(fmt::format("job \"{}\": the node has {} jobs and max_jobs is {}", name, running,
                               limits_.max_jobs));
  }
  if (wanted.ranks() > limits_.max_ranks) {
    return refused(fmt::format("job \"{}\": {} ranks, max_ranks is {}", name, wanted.ranks(),
                               limits_.max_ranks));
  }
  std::uint64_t reserved = 0;
  for (const auto& forming : formings_) reserved += forming->table_bytes;
  if (reserved + wanted.table_bytes > limits_.max_table_bytes) {
    return refused(
        fmt::format("job \"{}\": its {} ranks in {} trees with a credit of {} take {} bytes; {} of "
                    "{} are taken: lower shards.job_credit, or end other jobs",
                    name, wanted.ranks(), wanted.vertices.size(), wanted.credit, wanted.table_bytes,
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
