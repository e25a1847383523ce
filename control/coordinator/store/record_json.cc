#include "control/coordinator/store/record_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/coordinator/records/job_assignment.h"
#include "control/coordinator/records/vertex_json.h"
#include "control/plan/json/plan_json.h"
#include "control/plan/model/validate.h"
#include "dataplane/wire/notice.h"
#include "net/rpc/params.h"
#include "net/rpc/partition_json.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxSpeed = 1ULL << 50;
constexpr std::size_t kMaxSpeeds = 4096;  // names

json parse(std::string_view text) {
  return json::parse(text, nullptr, false);
}

// The members of the object that Params can read.
json only(const json& object, std::initializer_list<const char*> keys) {
  json known = json::object();
  for (const char* key : keys) {
    if (const auto at = object.find(key); at != object.end()) known[key] = *at;
  }
  return known;
}

json to_json(const Rack& rack) {
  return {{"name", rack.name}, {"up", rack.up}, {"down", rack.down}};
}

// Left out: no rack.
std::optional<Rack> parse_rack(const json& sent) {
  Rack rack;
  if (!sent.contains("rack")) return rack;
  if (!sent["rack"].is_object()) return std::nullopt;
  rpc::Params params(sent["rack"]);
  rack.name = params.text("name", kMaxJobName);
  rack.up = params.number("up", 0, kMaxSpeed);
  rack.down = params.number("down", 0, kMaxSpeed);
  if (params.finish()) return std::nullopt;
  return rack;
}

json to_json(const Measured& measured) {
  json sent = {{"speed", measured.speed}, {"sum", measured.sum}};
  if (!measured.rack.name.empty()) sent["rack"] = to_json(measured.rack);
  return sent;
}

json to_json(const Member& member) {
  json sent = {{"name", member.name},
               {"host", member.host},
               {"role", role_name(member.role)},
               {"tcp", member.tcp},
               {"unix", member.local},
               {"shards", member.shards},
               {"speed", member.speed},
               {"measured", to_json(member.measured)},
               {"rails", control::to_json(member.rails)},
               {"draining", member.draining}};
  if (!member.rack.name.empty()) sent["rack"] = to_json(member.rack);
  return sent;
}

std::optional<Measured> parse_measured(const json& sent) {
  if (!sent.is_object()) return std::nullopt;
  const json known = only(sent, {"speed", "sum"});
  rpc::Params params(known);
  Measured measured;
  measured.speed = params.number("speed", 0, kMaxSpeed);
  measured.sum = params.number("sum", 0, UINT64_MAX);
  auto rack = parse_rack(sent);
  if (params.finish() || !rack) return std::nullopt;
  measured.rack = std::move(*rack);
  return measured;
}

std::optional<Member> parse_member(const json& sent) {
  if (!sent.is_object()) return std::nullopt;
  const json known =
      only(sent, {"name", "host", "role", "tcp", "unix", "shards", "speed", "draining"});
  rpc::Params params(known);
  Member member;
  member.name = params.text("name", kMaxJobName);
  member.host = params.text("host", kMaxJobName);
  member.role = params.text("role", kMaxJobName) == "worker" ? Role::kWorker : Role::kHelper;
  member.tcp = params.text("tcp", kMaxAddress);
  member.local = params.text("unix", kMaxAddress);
  member.shards = static_cast<std::uint32_t>(params.number("shards", 1, protocol::kMaxTrees));
  member.speed = params.number("speed", 0, kMaxSpeed);
  member.draining = params.flag_or("draining", false);
  if (params.finish()) return std::nullopt;
  const auto measured = parse_measured(sent.value("measured", json()));
  auto rails = parse_rails(sent.value("rails", json::array()));
  auto rack = parse_rack(sent);
  if (!measured || !rails || !rack) return std::nullopt;
  member.rack = std::move(*rack);
  member.measured = *measured;
  member.rails = std::move(*rails);
  return member;
}

json to_json(const SetPlan& plan) {
  return {{"job", plan.job},
          {"domain", plan.machines.domain},
          {"closed_form", plan.source == PlanSource::kClosedForm},
          {"racks", plan.source == PlanSource::kRacks},
          {"file", plan::write_plan(plan.machines.file)}};
}

std::shared_ptr<const SetPlan> parse_set_plan(const json& sent) {
  if (!sent.is_object()) return nullptr;
  const json known = only(sent, {"job", "domain", "closed_form", "racks"});
  rpc::Params params(known);
  SetPlan plan;
  plan.job = params.text("job", kMaxJobName);
  plan.machines.domain = params.number("domain", 0, plan::kMaxDomains);
  if (params.flag_or("closed_form", false)) plan.source = PlanSource::kClosedForm;
  if (params.flag_or("racks", false)) plan.source = PlanSource::kRacks;
  const json file = sent.value("file", json());
  if (params.finish() || !file.is_string()) return nullptr;
  auto read = plan::read_plan(file.get<std::string>());
  if (!read || !plan::validate(*read, {}) || plan.machines.domain >= read->domains.size())
    return nullptr;
  plan.machines.file = std::move(read).value();
  return std::make_shared<const SetPlan>(std::move(plan));
}

json to_json(const std::vector<ShardOf>& shards) {
  json list = json::array();
  for (const ShardOf& one : shards) list.push_back(json::array({one.node, one.index}));
  return list;
}

std::optional<std::vector<ShardOf>> parse_shards(const json& sent) {
  if (!sent.is_array() || sent.size() > kMaxBelow) return std::nullopt;
  std::vector<ShardOf> shards;
  for (const json& one : sent) {
    const bool pair = one.is_array() && one.size() == 2 && one[0].is_number_unsigned() &&
                      one[1].is_number_unsigned() &&
                      one[1].get<std::uint64_t>() < protocol::kMaxTrees;
    if (!pair) return std::nullopt;
    shards.push_back({one[0].get<NodeId>(), one[1].get<std::uint32_t>()});
  }
  return shards;
}

json to_json(const PlanNode& node, std::uint32_t ranks) {
  json sent = {
      {"node", node.node},   {"placement", node.placement}, {"member", to_json(node.member)},
      {"trees", node.trees}, {"rails", node.rails},         {"stands_in_for", node.stands_in_for}};
  if (all_stars(node.vertices, ranks)) return sent;
  sent["vertices"] = control::to_json(node.vertices);
  sent["below"] = to_json(node.below);
  sent["above"] = to_json(node.above);
  return sent;
}

// Reads the node's vertices. Without them, all its trees are stars of all ranks.
bool read_vertices(const json& sent, const JobRecord& job, PlanNode& node) {
  const auto ranks = static_cast<std::uint16_t>(job.ranks);
  if (!sent.contains("vertices")) {
    for (const std::uint32_t tree : node.trees) {
      node.vertices.push_back(protocol::star(tree, ranks));
    }
    return true;
  }
  auto below = parse_shards(sent.value("below", json()));
  auto above = parse_shards(sent.value("above", json()));
  if (!below || !above) return false;
  auto vertices = parse_vertices(sent["vertices"], {.trees = node.trees,
                                                    .ranks = ranks,
                                                    .left_out = job.left_out,
                                                    .below = below->size(),
                                                    .above = above->size()});
  if (!vertices) return false;
  node.vertices = std::move(*vertices);
  node.below = std::move(*below);
  node.above = std::move(*above);
  return true;
}

std::optional<PlanNode> parse_plan_node(const json& sent, const JobRecord& job) {
  if (!sent.is_object()) return std::nullopt;
  const json known = only(sent, {"node", "placement"});
  rpc::Params params(known);
  PlanNode node;
  node.node = params.number("node", 1, UINT64_MAX);
  node.placement = params.number("placement", 1, UINT64_MAX);
  auto member = parse_member(sent.value("member", json()));
  if (params.finish() || !member) return std::nullopt;
  node.member = std::move(*member);
  const json listed = sent.value("trees", json()), rails = sent.value("rails", json());
  const std::uint32_t trees = job.plan.trees;
  if (!listed.is_array() || !rails.is_array() || trees == 0) return std::nullopt;
  node.trees = rpc::read_numbers(listed, trees, trees - 1);
  node.rails = rpc::read_numbers(rails, node.trees.size(), kMaxRails - 1);
  const bool rising = std::adjacent_find(node.trees.begin(), node.trees.end(),
                                         std::greater_equal<>()) == node.trees.end();
  if (node.trees.empty() || !rising || node.rails.size() != rails.size()) return std::nullopt;
  for (const std::uint32_t rail : node.rails) {
    if (rail >= node.member.rails.size()) return std::nullopt;
  }
  auto names = parse_names(sent.value("stands_in_for", json()));
  if (!names || !read_vertices(sent, job, node)) return std::nullopt;
  node.stands_in_for = std::move(*names);
  return node;
}

// Each shard that a node names is of a node of the job.
bool names_own_nodes(const JobRecord& job) {
  const auto has = [&](const ShardOf& shard) {
    return std::any_of(job.nodes.begin(), job.nodes.end(),
                       [&](const PlanNode& node) { return node.node == shard.node; });
  };
  return std::all_of(job.nodes.begin(), job.nodes.end(), [&](const PlanNode& node) {
    return std::all_of(node.below.begin(), node.below.end(), has) &&
           std::all_of(node.above.begin(), node.above.end(), has);
  });
}

// Reads what a job has when it is placed.
bool read_placed(const json& sent, const PlansByJob& plans, JobRecord& job) {
  if (!sent.contains("nodes")) return true;
  auto plan = rpc::find_partition(sent);
  auto made_by = parse_set_plan(sent.value("made_by", json()));
  const json nodes = sent["nodes"];
  if (!plan || !made_by || !nodes.is_array() || nodes.size() > protocol::kMaxTrees) return false;
  job.plan = std::move(*plan);
  job.made_by = std::move(made_by);
  const auto same = plans.find(job.made_by->job);
  if (same != plans.end() && set_plan_text(*same->second) == set_plan_text(*job.made_by)) {
    job.made_by = same->second;
  }
  if (sent.contains("buffers")) {
    const auto buffers = parse_buffers(sent["buffers"]);
    if (!buffers) return false;
    job.buffers = *buffers;
  }
  for (const json& one : nodes) {
    auto node = parse_plan_node(one, job);
    if (!node) return false;
    job.nodes.push_back(std::move(*node));
  }
  return names_own_nodes(job);
}

}  // namespace

std::string member_text(const Member& member) {
  return to_json(member).dump();
}

std::optional<Member> read_member(std::string_view text) {
  return parse_member(parse(text));
}

std::string set_plan_text(const SetPlan& plan) {
  return to_json(plan).dump();
}

std::shared_ptr<const SetPlan> read_set_plan(std::string_view text) {
  return parse_set_plan(parse(text));
}

std::string job_text(const JobRecord& job) {
  json sent = {{"name", job.name},   {"lock", control::to_json(job.lock)},
               {"epoch", job.epoch}, {"follows", job.follows},
               {"ranks", job.ranks}, {"weight", job.weight},
               {"owner", job.owner}, {"plan_epoch", job.plan_epoch},
               {"rate", job.rate},   {"runs", job.runs}};
  put_rank_loss(sent, job.rank_loss, job.left_out);
  if (job.nodes.empty() || job.made_by == nullptr) return sent.dump();
  rpc::put_partition(sent, job.plan);
  sent["made_by"] = to_json(*job.made_by);
  if (job.buffers != protocol::BufferLayout{}) sent["buffers"] = control::to_json(job.buffers);
  json nodes = json::array();
  for (const PlanNode& node : job.nodes) nodes.push_back(to_json(node, job.ranks));
  sent["nodes"] = std::move(nodes);
  return sent.dump();
}

SharedJob read_job(std::string_view text, const PlansByJob& plans) {
  const json sent = parse(text);
  if (!sent.is_object()) return nullptr;
  const json known = only(
      sent, {"name", "epoch", "follows", "ranks", "weight", "owner", "plan_epoch", "rate", "runs"});
  rpc::Params params(known);
  JobRecord job;
  job.name = params.text("name", kMaxJobName);
  job.epoch = static_cast<std::uint32_t>(params.number("epoch", 1, UINT32_MAX));
  job.follows = static_cast<std::uint32_t>(params.number("follows", 0, UINT32_MAX));
  job.ranks = static_cast<std::uint32_t>(params.number("ranks", 1, wire::kMaxRanks));
  job.weight = static_cast<std::uint32_t>(params.number("weight", 1, 1000));
  job.owner = params.text("owner", kMaxJobName);
  job.plan_epoch = params.number("plan_epoch", 0, UINT64_MAX);
  job.rate = params.number("rate", 0, UINT64_MAX);
  job.runs = params.flag_or("runs", false);
  auto lock = parse_lock(sent.value("lock", json()));
  if (params.finish() || !lock) return nullptr;
  job.lock = std::move(*lock);
  const auto policy = find_policy(sent, job.ranks);
  auto left_out = find_left_out(sent, job.ranks);
  if (!policy || !left_out) return nullptr;
  job.rank_loss = *policy;
  job.left_out = std::move(*left_out);
  if (!read_placed(sent, plans, job)) return nullptr;
  return std::make_shared<const JobRecord>(std::move(job));
}

std::string speeds_text(const std::map<std::string, Measured>& speeds) {
  json sent = json::object();
  for (const auto& [name, measured] : speeds) {
    sent[name] = to_json(measured);
  }
  return sent.dump();
}

std::optional<std::map<std::string, Measured>> read_speeds(std::string_view text) {
  const json sent = parse(text);
  if (!sent.is_object() || sent.size() > kMaxSpeeds) return std::nullopt;
  std::map<std::string, Measured> speeds;
  for (const auto& [name, value] : sent.items()) {
    const auto measured = parse_measured(value);
    if (!measured || name.size() > kMaxJobName) return std::nullopt;
    speeds[name] = *measured;
  }
  return speeds;
}

}  // namespace tally::control
