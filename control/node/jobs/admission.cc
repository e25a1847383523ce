#include "control/node/jobs/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "control/access/job_lock.h"
#include "control/coordinator/records/shard_indices.h"
#include "control/coordinator/records/tree_buffers.h"

namespace tally::control {
namespace {

// One shard sums and hands the results down, so it has both roots.
bool has_whole_roots(const JobAssignment& placement) {
  const auto has_root = [&](std::uint32_t tree) {
    return std::any_of(
        placement.vertices.begin(), placement.vertices.end(),
        [tree](const protocol::Vertex& one) { return one.tree == tree && one.is_root(); });
  };
  return std::all_of(placement.vertices.begin(), placement.vertices.end(),
                     [&](const protocol::Vertex& vertex) {
                       const std::uint32_t sums = placement.plan.sum_tree(vertex.tree);
                       const std::uint32_t results = placement.plan.result_tree(vertex.tree);
                       const std::uint32_t other = sums != protocol::kNoTree ? sums : results;
                       return !vertex.is_root() || other == protocol::kNoTree || has_root(other);
                     });
}

}  // namespace

Admission::Admission(AdmissionLimits limits, std::vector<ConfiguredJob> configured)
    : limits_(limits), configured_(std::move(configured)) {}

const ConfiguredJob* Admission::configured(const std::string& name) const {
  const auto found = std::find_if(configured_.begin(), configured_.end(),
                                  [&](const ConfiguredJob& job) { return job.name == name; });
  return found == configured_.end() ? nullptr : &*found;
}

JobInstance* Admission::current(const std::string& name) const {
  const auto found = std::find_if(instances_.begin(), instances_.end(), [&](const auto& instance) {
    return instance->name == name && !instance->over;
  });
  return found == instances_.end() ? nullptr : found->get();
}

protocol::JobId Admission::free_job_id() const {
  protocol::JobId job_id = 0;
  while (std::any_of(instances_.begin(), instances_.end(),
                     [&](const auto& instance) { return instance->job_id == job_id; })) {
    ++job_id;
  }
  return job_id;
}

// The number that the owner's other jobs have; without other jobs, the lowest free number.
protocol::OwnerId Admission::number_of(const std::string& owner) const {
  if (owner.empty()) return protocol::kNoOwner;
  protocol::OwnerId number = 0;
  for (const auto& instance : instances_) {
    if (instance->owner == owner) return instance->owner_number;
  }
  while (std::any_of(instances_.begin(), instances_.end(),
                     [&](const auto& instance) { return instance->owner_number == number; })) {
    ++number;
  }
  return number;
}

// The shards with the least load, by the weights of their jobs: one for each of these rails.
// Without rails, the shards are any, in ascending order.
std::vector<std::uint32_t> Admission::least_used_shards(
    std::span<const std::uint32_t> shard_rails) const {
  std::vector<std::uint64_t> load(limits_.shards);
  for (const auto& instance : instances_) {
    for (const std::uint32_t shard : instance->shards) load[shard] += instance->weight;
  }
  std::vector<std::uint32_t> shards(limits_.shards);
  std::iota(shards.begin(), shards.end(), 0U);
  std::stable_sort(shards.begin(), shards.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return load[a] < load[b]; });
  std::vector<std::uint32_t> chosen;
  for (const std::uint32_t rail : shard_rails) {
    auto next = std::find_if(shards.begin(), shards.end(), [&](std::uint32_t shard) {
      return rails_.empty() || rail_of(shard, rails_) == rail;
    });
    if (next == shards.end()) next = shards.begin();  // its rail has gone since the plan
    chosen.push_back(*next);
    shards.erase(next);
  }
  if (rails_.empty()) std::sort(chosen.begin(), chosen.end());
  return chosen;
}

Result<JobLock> Admission::lock_of(const Applicant& applicant) const {
  const ConfiguredJob* configuration = configured(applicant.job);
  return make_lock(applicant.caller, applicant.job,
                   configuration != nullptr ? &configuration->token : nullptr);
}

Outcome Admission::unlocks(const Applicant& applicant) const {
  const JobInstance* instance = current(applicant.job);
  if (applicant.epoch != 0) {
    // First, because a caller that may not enter the job must not learn its epoch.
    for (const auto& one : instances_) {
      if (one->name != applicant.job) continue;
      if (auto may = may_enter(applicant.caller, applicant.job, one->lock); !may) return may;
    }
    const auto found = placed_for(applicant);
    if (!found) return found.error();
    instance = *found;
  }
  if (instance != nullptr) return may_enter(applicant.caller, applicant.job, instance->lock);
  const auto lock = lock_of(applicant);
  return lock ? Outcome(Unit{}) : lock.error();
}

const net::crypto::Key* Admission::key(std::string_view identity) const {
  for (const auto& instance : instances_) {
    const auto& key = instance->lock.key;
    if (key && key->identity == identity) return &key->key;
  }
  return nullptr;
}

Result<Admission::Admitted> Admission::admit(const Applicant& applicant, std::uint32_t session) {
  if (auto may = unlocks(applicant); !may) return may.error();
  const ConfiguredJob* configuration = configured(applicant.job);
  JobInstance* instance = current(applicant.job);
  const bool is_new = instance == nullptr && applicant.epoch == 0;
  if (applicant.epoch != 0) {
    auto found = placed_for(applicant);
    if (!found) return found.error();
    instance = *found;
  }
  if (instance != nullptr && instance->placed && applicant.epoch == 0) {
    return refused(
        fmt::format("job \"{}\" is spread over {} nodes: its ranks ask the coordinator first "
                    "(job.open), and bring the epoch that it says",
                    applicant.job, instance->nodes));
  }
  if (is_new) {
    auto formed = form(applicant, configuration);
    if (!formed) return formed.error();
    instance = *formed;
  }
  return seat(*instance, is_new, applicant, session);
}

Result<JobInstance*> Admission::placed_for(const Applicant& applicant) const {
  for (const auto& instance : instances_) {
    if (!instance->placed || instance->name != applicant.job ||
        instance->epoch != applicant.epoch) {
      continue;
    }
    if (!instance->over) return instance.get();
  }
  return Error{Status::kStaleEpoch,
               fmt::format("job \"{}\" has no place here in epoch {}, or no longer: ask the "
                           "coordinator again (job.open)",
                           applicant.job, applicant.epoch)};
}

Result<Admission::Admitted> Admission::seat(JobInstance& instance, bool is_new,
                                            const Applicant& applicant, std::uint32_t session) {
  if (applicant.ranks != instance.ranks()) {
    return refused(fmt::format("job \"{}\" has {} ranks, rank {} says {}", applicant.job,
                               instance.ranks(), applicant.rank, applicant.ranks));
  }
  if (auto room = capacity_.for_session(applicant.job); !room) {
    if (is_new) release(instance);
    return room.error();
  }
  const auto number = member_of(instance, applicant);
  if (!number) return number.error();
  std::uint32_t& member = instance.members[*number];
  if (member != kNobody) {
    return refused(
        fmt::format("job \"{}\": rank {} is taken by session {}; is another run of this "
                    "job still alive?",
                    applicant.job, *number, member));
  }
  member = session;
  ++instance.joined;
  return Admitted{&instance, is_new, *number};
}

Result<JobInstance*> Admission::form(const Applicant& applicant,
                                     const ConfiguredJob* configuration) {
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
  const std::uint32_t shards = usable_shards(rails_, limits_.shards_of_a_job());
  const auto trees = over_rails(rails_, shards, protocol::kWeightUnit);
  std::vector<std::uint32_t> shard_rails, weights;
  for (const RailTree& tree : trees) {
    shard_rails.push_back(tree.rail);
    weights.push_back(tree.weight);
  }
  auto instance = std::make_unique<JobInstance>();
  instance->name = name;
  instance->members.assign(applicant.ranks, kNobody);
  auto lock = lock_of(applicant);
  if (!lock) return lock.error();
  instance->lock = std::move(*lock);
  instance->weight = configuration != nullptr ? configuration->weight : 1;
  if (configuration == nullptr) instance->owner = applicant.owner;
  instance->plan = protocol::weighted_partition(weights, limits_.split_bytes);
  instance->rate = speed_of(rails_) / applicant.ranks;  // the NICs carry every rank's bytes
  for (std::uint32_t tree = 0; tree < shards; ++tree) {
    instance->vertices.push_back(protocol::star(tree, instance->ranks()));
  }
  std::uint32_t& last = epochs_[name];
  instance->epoch = last + 1;
  const auto added = add(std::move(instance), shard_rails);
  if (added) ++last;
  if (last == 0) epochs_.erase(name);
  return added;
}

Result<JobInstance*> Admission::add(std::unique_ptr<JobInstance> instance,
                                    std::span<const std::uint32_t> shard_rails) {
  instance->credit = limits_.credit_of(instance->ranks());
  instance->table_bytes = table_bytes(*instance, static_cast<std::uint32_t>(shard_rails.size()));
  instance->buffer_bytes = buffer_bytes(*instance, static_cast<std::uint32_t>(shard_rails.size()));
  if (auto room = capacity_.for_instance(*instance); !room) return room.error();
  instance->identity = ++last_identity_;
  instance->job_id = free_job_id();
  instance->owner_number = number_of(instance->owner);
  instance->shards = least_used_shards(shard_rails);
  instances_.push_back(std::move(instance));
  return instances_.back().get();
}

// The rails of the assignment; without them, the rails in use, in turn.
std::vector<std::uint32_t> Admission::rails_of_shards(const JobAssignment& placement,
                                                      std::uint32_t shards) const {
  std::vector<std::uint32_t> rails = placement.rails;
  if (!rails.empty() || rails_.empty()) {
    rails.resize(shards);
    return rails;
  }
  const auto used = rails_in_use(rails_);
  for (std::uint32_t i = 0; i < shards; ++i) rails.push_back(used[i % used.size()]);
  return rails;
}

// The coordinator has checked the client. This node checks whether there is room.
Result<Admission::Placed> Admission::place(const JobAssignment& placement, Nanos now) {
  const auto trees = static_cast<std::uint32_t>(placement.vertices.size());
  const std::uint32_t shards = std::min(trees, limits_.shards_of_a_job());
  if (auto fits = serves(placement, shards); !fits) return fits.error();
  JobInstance* before = current(placement.job);
  // The earlier version's ranks move to the new version. Both are here until the ranks have left
  // the earlier one.
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
  auto wanted = std::make_unique<JobInstance>();
  wanted->name = placement.job;
  wanted->members.assign(placement.ranks + placement.below.size(), kNobody);
  wanted->lock = placement.lock;
  wanted->epoch = placement.epoch;
  wanted->weight = placement.weight;
  wanted->eager_results = !placement.rank_loss.finishes;
  wanted->owner = placement.owner;
  wanted->plan = placement.plan;
  wanted->plan_epoch = placement.plan_epoch;
  wanted->vertices = placement.vertices;
  wanted->below = placement.below;
  wanted->above = placement.above;
  wanted->buffers = placement.buffers;
  wanted->stands_in_for = placement.stands_in_for;
  wanted->nodes = placement.nodes;
  wanted->rate = placement.rate;
  wanted->placed = true;
  wanted->placement = placement.id;
  wanted->placed_at = now;
  const auto added = add(std::move(wanted), rails_of_shards(placement, shards));
  if (!added) {
    if (before != nullptr) before->over = false;
    if (last == 0) epochs_.erase(placement.job);
    return added.error();
  }
  last = placement.epoch;
  highest_epoch_ = std::max(highest_epoch_, last);
  return Placed{*added, before};
}

JobInstance* Admission::find(std::uint64_t identity) const {
  const auto found = std::find_if(instances_.begin(), instances_.end(), [&](const auto& instance) {
    return instance->identity == identity;
  });
  return found == instances_.end() ? nullptr : found->get();
}

JobInstance* Admission::placed(std::uint64_t placement) const {
  const auto found = std::find_if(instances_.begin(), instances_.end(), [&](const auto& instance) {
    return instance->placed && instance->placement == placement;
  });
  return found == instances_.end() || placement == 0 ? nullptr : found->get();
}

std::vector<JobInstance*> Admission::unclaimed(Nanos now) const {
  std::vector<JobInstance*> some;
  for (const auto& instance : instances_) {
    if (instance->unclaimed() && now - instance->placed_at >= kPlacementTimeout) {
      some.push_back(instance.get());
    }
  }
  return some;
}

// The member's number in the job instance. The caller has checked the job's lock. A child node
// must also be in this node's own job assignment.
Result<std::uint32_t> Admission::member_of(const JobInstance& instance,
                                           const Applicant& applicant) {
  if (applicant.child_node.empty()) return applicant.rank;
  const auto found =
      std::find_if(instance.below.begin(), instance.below.end(), [&](const RemoteShard& one) {
        return one.name == applicant.child_node && one.shard == applicant.shard;
      });
  if (found != instance.below.end()) {
    return static_cast<std::uint32_t>(instance.ranks() + (found - instance.below.begin()));
  }
  return refused(
      fmt::format("job \"{}\": shard {} of node \"{}\" is below none of this node's in its trees",
                  applicant.job, applicant.shard, applicant.child_node));
}

Outcome Admission::serves(const JobAssignment& placement, std::uint32_t shards) const {
  for (const protocol::Vertex& vertex : placement.vertices) {
    const std::uint64_t children = vertex.children();
    if (!vertex.child_nodes.empty() && children > kMostChildren) {
      return refused(
          fmt::format("job \"{}\": {} children of a vertex that has other nodes among "
                      "them, and {} is the most: put ranks below more nodes",
                      placement.job, children, kMostChildren));
    }
    const bool deep = !vertex.child_nodes.empty() || !vertex.is_root();
    // The buffers between the vertex and its child nodes are of one class for each height.
    if (vertex.height > kMaxHeight || vertex.height > placement.buffers.classes + 1) {
      return refused(fmt::format(
          "job \"{}\": a tree of height {} here, and this node has buffers "
          "for {}: set a plan of fewer levels",
          placement.job, vertex.height, std::min(kMaxHeight, placement.buffers.classes + 1)));
    }
    if (deep && placement.buffers.bytes * children > most_tile_bytes(children)) {
      return refused(
          fmt::format("job \"{}\": {} children and buffers of {} bytes between nodes are more than "
                      "this node has room for: is the coordinator of another version?",
                      placement.job, children, placement.buffers.bytes));
    }
  }
  if (!has_whole_roots(placement)) {
    return refused(
        fmt::format("job \"{}\": this node has the root of a tree, and not that of its results: is "
                    "the coordinator of another version?",
                    placement.job));
  }
  // A rank's operation that is divided over all trees takes one credit for each tree at a shard.
  const auto trees = static_cast<std::uint32_t>(placement.vertices.size());
  std::vector<std::uint32_t> by_shard(shards);
  for (const auto index : shard_indices(placement.vertices, placement.plan, shards)) {
    ++by_shard[index];
  }
  const std::uint32_t most = *std::max_element(by_shard.begin(), by_shard.end());
  const std::uint32_t credit = limits_.credit_of(placement.ranks);
  if (most > credit) {
    return refused(fmt::format(
        "job \"{}\": {} trees at {} shards need a credit of {} here, and each of its {} ranks has "
        "{}: raise shards.{}, or set a plan of fewer trees",
        placement.job, trees, shards, most, placement.ranks, credit,
        credit < limits_.credit ? "job_credit" : "credit"));
  }
  return Unit{};
}

void Admission::unseat(const Admitted& admitted) {
  JobInstance& instance = *admitted.instance;
  instance.members[admitted.member] = kNobody;
  --instance.joined;
  if (admitted.is_new) release(instance);
}

bool Admission::leave(JobInstance& instance, std::uint32_t rank) {
  instance.members[rank] = kNobody;
  instance.over = true;
  return --instance.joined == 0;
}

void Admission::release(JobInstance& instance) {
  const std::string name = std::move(instance.name);  // so that the end of a job needs no memory
  std::erase_if(instances_, [&](const auto& other) { return other.get() == &instance; });
  const bool known = std::any_of(instances_.begin(), instances_.end(),
                                 [&](const auto& other) { return other->name == name; });
  if (!known) epochs_.erase(name);  // no session is left that could hold an old epoch
}

}  // namespace tally::control
