#include "control/coordinator/records/job_assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "control/coordinator/records/rails.h"
#include "control/coordinator/records/tree_buffers.h"
#include "control/coordinator/records/vertex_json.h"
#include "dataplane/wire/notice.h"
#include "net/rpc/params.h"
#include "net/rpc/partition_json.h"

namespace tally::control {

using nlohmann::json;

namespace {

json to_json(const std::vector<RemoteShard>& remote_shards) {
  json list = json::array();
  for (const RemoteShard& one : remote_shards) {
    list.push_back({{"name", one.name},
                    {"tcp", one.tcp},
                    {"unix", one.local},
                    {"lane", one.shard},
                    {"node", one.node}});
  }
  return list;
}

static_assert(kMaxBelow + wire::kMaxRanks <= UINT16_MAX);

std::optional<std::vector<RemoteShard>> parse_remote_shards(const json& sent, std::size_t most) {
  if (!sent.is_array() || sent.size() > most) return std::nullopt;
  std::vector<RemoteShard> remote_shards;
  for (const json& one : sent) {
    if (!one.is_object()) return std::nullopt;
    rpc::Params params(one);
    RemoteShard read;
    read.name = params.text("name", kMaxJobName);
    read.tcp = params.text("tcp", kMaxAddress);
    read.local = params.text("unix", kMaxAddress);
    read.shard = static_cast<std::uint32_t>(params.number("lane", 0, protocol::kMaxTrees - 1));
    read.node = static_cast<std::uint32_t>(params.number_or("node", 0, protocol::kMaxTrees, 0));
    if (params.finish() || (read.tcp.empty() && read.local.empty())) return std::nullopt;
    remote_shards.push_back(std::move(read));
  }
  return remote_shards;
}

}  // namespace

json to_json(const protocol::BufferLayout& buffers) {
  return {{"bytes", buffers.bytes},
          {"up", buffers.up},
          {"down", buffers.down},
          {"classes", buffers.classes}};
}

std::optional<protocol::BufferLayout> parse_buffers(const json& sent) {
  if (!sent.is_object()) return std::nullopt;
  rpc::Params params(sent);
  protocol::BufferLayout buffers;
  buffers.bytes = params.number("bytes", kLeastBufferBytes, kMostBufferBytes);
  buffers.up = static_cast<std::uint32_t>(params.number("up", 1, kMostBuffers));
  buffers.down = static_cast<std::uint32_t>(params.number("down", 1, kMostBuffers));
  buffers.classes = static_cast<std::uint32_t>(params.number("classes", 1, kMaxHeight - 1));
  if (params.finish() || buffers.bytes % kLeastBufferBytes != 0) return std::nullopt;
  return buffers;
}

std::optional<std::vector<std::string>> parse_names(const json& sent) {
  if (!sent.is_array() || sent.size() > protocol::kMaxTrees) return std::nullopt;
  std::vector<std::string> names;
  for (const json& one : sent) {
    const auto* name = one.get_ptr<const std::string*>();
    if (name == nullptr || name->size() > kMaxJobName) return std::nullopt;
    names.push_back(*name);
  }
  return names;
}

namespace {

// Reads this node's vertices in the trees. Without them, all trees are stars of all ranks.
bool read_vertices(const json& sent, JobAssignment& placement) {
  const auto vertices = sent.find("vertices");
  if (vertices == sent.end()) {
    for (const std::uint32_t tree : placement.trees) {
      placement.vertices.push_back(
          protocol::star(tree, static_cast<std::uint16_t>(placement.ranks)));
    }
    return true;
  }
  auto below = parse_remote_shards(sent.value("below", json::array()), kMaxBelow);
  auto above = parse_remote_shards(sent.value("above", json::array()), protocol::kMaxTrees);
  if (!below || !above) return false;
  auto parsed = parse_vertices(*vertices, {.trees = placement.trees,
                                           .ranks = static_cast<std::uint16_t>(placement.ranks),
                                           .left_out = placement.left_out,
                                           .below = below->size(),
                                           .above = above->size()});
  if (!parsed) return false;
  if (!below->empty() || !above->empty()) {
    const auto buffers = parse_buffers(sent.value("slots", json()));
    if (!buffers) return false;
    placement.buffers = *buffers;
  }
  placement.vertices = std::move(*parsed);
  placement.below = std::move(*below);
  placement.above = std::move(*above);
  return true;
}

}  // namespace

json to_json(const JobLock& lock) {
  return {{"digest", lock.digest},
          {"user", lock.user},
          {"proven", lock.is_proven},
          {"key", lock.key ? net::auth::text_of(*lock.key) : ""}};
}

std::optional<JobLock> parse_lock(const json& sent) {
  if (!sent.is_object()) return std::nullopt;
  rpc::Params params(sent);
  JobLock lock;
  lock.digest = params.text("digest", kMaxJobName);
  lock.user = params.text("user", 2 * kMaxJobName);
  lock.is_proven = params.flag_or("proven", false);
  const std::string key = params.text("key", kMaxToken);
  if (params.finish()) return std::nullopt;
  if (key.empty()) return lock;
  auto shown = net::auth::shown(key);
  if (!shown) return std::nullopt;
  lock.key = std::move(*shown);
  return lock;
}

json to_json(const JobAssignment& placement) {
  json sent = {{"placement", placement.id},          {"job", placement.job},
               {"lock", to_json(placement.lock)},    {"epoch", placement.epoch},
               {"ranks", placement.ranks},           {"weight", placement.weight},
               {"plan_epoch", placement.plan_epoch}, {"trees", placement.trees},
               {"nodes", placement.nodes},           {"rate", placement.rate}};
  if (!placement.owner.empty()) sent["owner"] = placement.owner;
  if (!placement.rails.empty()) sent["rails"] = placement.rails;
  if (!placement.stands_in_for.empty()) sent["stands_in_for"] = placement.stands_in_for;
  if (placement.follows != 0) sent["follows"] = placement.follows;
  put_rank_loss(sent, placement.rank_loss, placement.left_out);
  rpc::put_partition(sent, placement.plan);
  rpc::put_weights(sent, placement.plan);
  if (all_stars(placement.vertices, placement.ranks)) return sent;
  sent["vertices"] = to_json(placement.vertices);
  sent["below"] = to_json(placement.below);
  sent["above"] = to_json(placement.above);
  if (placement.buffers != protocol::BufferLayout{}) sent["slots"] = to_json(placement.buffers);
  return sent;
}

Result<JobAssignment> parse_job_assignment(const json& sent) {
  const auto wrong = [](std::string_view what) {
    return Error{Status::kProtocol,
                 fmt::format("the coordinator sent a placement {}: same version there?", what)};
  };
  if (!sent.is_object()) return wrong("that is not an object");
  // A later release may add keys, which this node ignores. So finish() does not check the whole
  // object.
  json known = json::object();
  for (const char* key :
       {"placement", "job", "epoch", "follows", "ranks", "weight", "owner", "plan_epoch"}) {
    if (const auto at = sent.find(key); at != sent.end()) known[key] = *at;
  }
  rpc::Params params(known);
  JobAssignment placement;
  placement.id = params.number("placement", 1, UINT64_MAX);
  placement.job = params.text("job", kMaxJobName);
  placement.epoch = static_cast<std::uint32_t>(params.number("epoch", 1, UINT32_MAX));
  placement.follows = static_cast<std::uint32_t>(params.number_or("follows", 1, UINT32_MAX, 0));
  placement.ranks = static_cast<std::uint32_t>(params.number("ranks", 1, wire::kMaxRanks));
  placement.weight = static_cast<std::uint32_t>(params.number("weight", 1, 1000));
  placement.owner = params.text_or("owner", kMaxJobName, "");
  placement.plan_epoch = params.number_or("plan_epoch", 0, UINT64_MAX, 0);
  if (const auto error = params.finish()) return *error;
  const auto policy = find_policy(sent, placement.ranks);
  if (!policy) return wrong("without a valid \"on_rank_loss\"");
  placement.rank_loss = *policy;
  auto left_out = find_left_out(sent, placement.ranks);
  if (!left_out) return wrong("whose \"left_out\" are not ranks of the job");
  placement.left_out = std::move(*left_out);
  auto lock = parse_lock(sent.value("lock", json()));
  if (!lock) return wrong("without a valid \"lock\"");
  placement.lock = std::move(*lock);
  auto plan = rpc::find_partition(sent);
  if (!plan) return wrong("without a valid \"plan\"");
  placement.plan = std::move(*plan);
  const std::uint32_t trees = placement.plan.trees;
  placement.trees = rpc::read_numbers(sent.value("trees", json()), trees, trees - 1);
  const bool rising = std::adjacent_find(placement.trees.begin(), placement.trees.end(),
                                         std::greater_equal<>()) == placement.trees.end();
  if (placement.trees.empty() || !rising)
    return wrong("whose \"trees\" are not trees of its plan in rising order");
  if (!read_vertices(sent, placement)) return wrong("without valid \"vertices\"");
  const json nodes = sent.value("nodes", json());
  placement.nodes = nodes.is_number_unsigned() && nodes.get<std::uint64_t>() <= protocol::kMaxTrees
                        ? nodes.get<std::uint32_t>()
                        : 1;
  const json rate = sent.value("rate", json());
  if (rate.is_number_unsigned()) placement.rate = rate.get<std::uint64_t>();
  auto stands_in_for = parse_names(sent.value("stands_in_for", json::array()));
  if (!stands_in_for) return wrong("whose \"stands_in_for\" has no valid names");
  placement.stands_in_for = std::move(*stands_in_for);
  if (!sent.contains("rails")) return placement;
  placement.rails = rpc::read_numbers(sent["rails"], placement.trees.size(), kMaxRails - 1);
  if (placement.rails.size() != placement.trees.size())
    return wrong("whose \"rails\" are not one number for each tree");
  return placement;
}

}  // namespace tally::control
