#include "tests/sim/trees/world.h"

#include <algorithm>
#include <cstring>

#include "summation/reduce.h"

namespace tally::sim::trees {
namespace {

constexpr std::uint64_t kMostEvents = 3'000'000;
constexpr std::uint32_t kBufferRegion = 7;

protocol::AggregatorConfig config_of(const Schedule& schedule) {
  protocol::AggregatorConfig config;
  config.plan = protocol::even_partition(1, 1 << 20);  // every job has its own
  config.window_bytes = schedule.window_bytes;
  config.tile_bytes = schedule.tile_bytes;
  config.tiles = schedule.tiles;
  config.max_height = schedule.max_height();
  config.upper_tiles = schedule.upper_tiles;
  config.one_class = schedule.one_class;
  return config;
}

}  // namespace

World::World(const Schedule& schedule, const Trace& trace)
    : schedule_(schedule),
      trace_(trace),
      random_(schedule.seed ^ 0x7ee5),
      nodes_(schedule.nodes),
      befallen_(schedule.jobs.size()) {
  for (std::uint32_t node = 0; node < schedule.nodes; ++node) {
    nodes_[node].shard = std::make_unique<SimShard>(*this, node, config_of(schedule));
  }
  for (std::size_t job = 0; job < schedule.jobs.size(); ++job) admit(job);
}

World::~World() = default;

std::size_t World::connect(Way way, std::size_t job, std::uint32_t from, std::uint32_t to,
                           std::uint32_t number) {
  channels_.push_back(Channel{way, job, from, to, number});
  return channels_.size() - 1;
}

// The node's places in all trees. Child nodes and parents are numbered in the order of the nodes.
void World::admit(std::size_t job) {
  const JobPlan& plan = schedule_.jobs[job];
  std::vector<protocol::JobSpec> specs(nodes_.size());
  std::vector<std::vector<std::uint32_t>> children(nodes_.size());
  std::vector<std::vector<std::uint32_t>> parents(nodes_.size());
  for (const Tree& tree : plan.trees) {
    for (const TreeVertex& vertex : tree) {
      if (vertex.parent == kNone) continue;
      children[tree[vertex.parent].node].push_back(vertex.node);
      parents[vertex.node].push_back(tree[vertex.parent].node);
    }
  }
  for (auto* lists : {&children, &parents}) {
    for (auto& list : *lists) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }
  const auto number_of = [](const std::vector<std::uint32_t>& list, std::uint32_t node) {
    return static_cast<std::uint16_t>(std::lower_bound(list.begin(), list.end(), node) -
                                      list.begin());
  };
  for (std::uint32_t t = 0; t < plan.trees.size(); ++t) {
    const Tree& tree = plan.trees[t];
    for (const TreeVertex& vertex : tree) {
      protocol::Vertex here;
      here.tree = t;
      here.height = vertex.height;
      here.ranks = vertex.ranks;
      for (const std::uint32_t child_node : vertex.child_nodes) {
        here.child_nodes.push_back(
            {number_of(children[vertex.node], tree[child_node].node), tree[child_node].below});
      }
      if (vertex.parent != kNone) {
        here.parent = number_of(parents[vertex.node], tree[vertex.parent].node);
      }
      if (here.is_root()) here.pace = schedule_.pace;
      specs[vertex.node].vertices.push_back(here);
    }
  }
  for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
    protocol::JobSpec& spec = specs[node];
    spec.ranks = plan.ranks;
    spec.weight = plan.weight;
    spec.credit = static_cast<std::uint32_t>(plan.ops.size() * plan.trees.size());
    spec.plan = plan.plan;
    spec.child_nodes = static_cast<std::uint16_t>(children[node].size());
    spec.parents = static_cast<std::uint16_t>(parents[node].size());
    spec.buffers = plan.buffers;
    if (schedule_.one_class) spec.buffers.classes = 1;
    nodes_[node].shard->protocol().add_job(static_cast<protocol::JobId>(job), spec);
  }
  jobs_.push_back(std::make_unique<Ranks>(*this, plan, job));
  join_ranks(job);
  for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
    for (std::uint32_t i = 0; i < children[node].size(); ++i) {
      const std::uint32_t child = children[node][i];
      join_nodes(job, node, i, child, number_of(parents[child], node));
    }
  }
}

// Each rank with the nodes that are its parents.
void World::join_ranks(std::size_t job) {
  const JobPlan& plan = schedule_.jobs[job];
  for (std::uint16_t rank = 0; rank < plan.ranks; ++rank) {
    for (std::uint32_t tree = 0; tree < plan.trees.size(); ++tree) {
      const std::uint32_t node = jobs_[job]->parent_of(tree, rank);
      if (rank_channels_.contains({job, rank, node})) continue;
      const auto member = static_cast<std::uint32_t>(nodes_[node].members.size());
      rank_channels_[{job, rank, node}] = connect(Way::kFromRank, job, rank, node, member);
      const std::size_t out = connect(Way::kToRank, job, node, rank, 0);
      nodes_[node].members.push_back(Session{job, true, rank, out, nullptr});
      nodes_[node].shard->protocol().join(static_cast<protocol::JobId>(job), rank, member);
    }
  }
}

void World::join_nodes(std::size_t job, std::uint32_t parent, std::uint32_t number,
                       std::uint32_t child, std::uint32_t child_number) {
  protocol::BufferLayout buffers = schedule_.jobs[job].buffers;
  if (schedule_.one_class) buffers.classes = 1;
  buffer_memory_.emplace_back(buffers.total_bytes());
  const auto member = static_cast<std::uint32_t>(nodes_[parent].members.size());
  const auto link = static_cast<std::uint32_t>(nodes_[child].links.size());
  const std::size_t down = connect(Way::kDown, job, parent, child, link);
  const std::size_t up = connect(Way::kUp, job, child, parent, member);
  nodes_[parent].members.push_back(Session{job, false, child, down, &buffer_memory_.back()});
  nodes_[child].links.push_back(Session{job, false, parent, up, &buffer_memory_.back()});
  const auto job_id = static_cast<protocol::JobId>(job);
  const auto child_node = static_cast<std::uint16_t>(schedule_.jobs[job].ranks + number);
  nodes_[parent].shard->protocol().join(job_id, child_node, member);
  nodes_[child].shard->protocol().join_parent(job_id, child_number, link, kBufferRegion, 0);
}

// -- messages
// ----------------------------------------------------------------------------------

void World::post(std::size_t index, const RingEntry& message) {
  Channel& channel = channels_[index];
  if (channel.closed || channel.hangs_up) return;
  if (channel.messages.empty()) open_.push_back(index);
  channel.messages.push_back(message);
}

void World::notify(std::size_t job, std::uint16_t rank, std::uint32_t node,
                   const wire::Notice& notice) {
  post(rank_channels_.at({job, rank, node}), wire::encode(notice));
}

void World::send(std::uint32_t node, protocol::Aggregator& protocol) {
  for (const protocol::TreeMessage& tree_message : protocol.outbox().messages_down()) {
    post(nodes_[node].members[tree_message.to].out, tree_message.message);
  }
  for (const protocol::TreeMessage& tree_message : protocol.outbox().messages_up()) {
    post(nodes_[node].links[tree_message.to].out, tree_message.message);
  }
  for (const protocol::Outgoing& outgoing : protocol.outbox().completions()) {
    post(nodes_[node].members[outgoing.member].out, wire::encode(outgoing.completion));
  }
  protocol.outbox().clear_tree_messages();
  protocol.outbox().clear_completions();
}

void World::touched(std::uint32_t node) {
  Node& here = nodes_[node];
  here.dirty = random_.chance(schedule_.laziness);
  if (!here.dirty) here.shard->turn();
}

void World::deliver(std::size_t which) {
  const std::size_t index = open_[which];
  Channel& channel = channels_[index];
  const bool hang_up = channel.messages.empty();
  const RingEntry message = hang_up ? RingEntry{} : channel.messages.front();
  if (!hang_up) channel.messages.pop_front();
  if (hang_up || (channel.messages.empty() && !channel.hangs_up)) {
    open_[which] = open_.back();
    open_.pop_back();
  }
  if (hang_up) channel.closed = true;
  const bool to_node = channel.way != Way::kToRank;
  if (to_node && nodes_[channel.to].lost) return;
  if (hang_up) {
    take_hang_up(channel);
  } else {
    take_up(channel, message);
  }
  if (to_node) touched(channel.to);
}

void World::take_up(const Channel& channel, const RingEntry& message) {
  wire::Notice notice;
  wire::Completion completion;
  if (channel.way == Way::kToRank) {
    if (wire::parse(message, completion) != Status::kOk) violated("no completion");
    jobs_[channel.job]->take(static_cast<std::uint16_t>(channel.to), channel.from, completion);
    return;
  }
  auto& protocol = nodes_[channel.to].shard->protocol();
  if (channel.way == Way::kDown) {
    if (trace_.on()) trace_message(channel, message);
    if (protocol.handle_parent_message(channel.number, message, now_) != Status::kOk) {
      violated("node {} does not understand its parent {}", channel.to, channel.from);
    }
    return;
  }
  if (trace_.on()) trace_message(channel, message);
  if (wire::parse(message, notice) == Status::kOk) {
    const bool bad = channel.way == Way::kFromRank && notice.in_region == kNowhere;
    protocol.announce(channel.number, notice, bad ? Status::kBadRegion : Status::kOk, now_);
  } else if (protocol.handle_child_message(channel.number, message, now_) != Status::kOk) {
    violated("node {} does not understand {}", channel.to, channel.from);
  }
}

void World::trace_message(const Channel& channel, const RingEntry& message) const {
  wire::Notice n;
  wire::Completion c;
  wire::VertexMessage m;
  const auto head = fmt::format("{} {} -> {}: ", channel.job, channel.from, channel.to);
  if (wire::parse(message, n) == Status::kOk) {
    trace_.write(now_, "{}{} tag {} round {} part {} flags {}", head, wire::name(n.kind), n.tag,
                 n.round, n.part, n.flags);
  } else if (wire::parse(message, c) == Status::kOk) {
    trace_.write(now_, "{}tree {} tag {} round {} \"{}\"", head, c.cookie, c.tag, c.round,
                 status_name(c.status));
  } else if (wire::parse(message, m) == Status::kOk) {
    trace_.write(now_, "{}{} tree {} tag {} round {} first {} count {} buffer {} flags {}", head,
                 wire::name(m.kind), m.tree, m.tag, m.round, m.first, m.count, m.buffer, m.flags);
  }
}

void World::take_hang_up(const Channel& channel) {
  if (channel.way == Way::kToRank) {
    jobs_[channel.job]->cut_off(static_cast<std::uint16_t>(channel.to), channel.from);
    return;
  }
  auto& protocol = nodes_[channel.to].shard->protocol();
  trace_.write(now_, "node {} loses {}", channel.to, channel.from);
  if (channel.way == Way::kDown) {
    protocol.parent_gone(channel.number, Status::kPeerLost, now_);
  } else {
    protocol.gone(channel.number, Status::kPeerLost, now_);
  }
}

// -- bytes
// -------------------------------------------------------------------------------------

std::byte* World::memory(std::uint32_t node, const protocol::Endpoint& where,
                         const protocol::Tile& tile) {
  const Session& session = nodes_[node].members[where.member];
  if (session.is_rank) {
    return jobs_[session.job]->memory(static_cast<std::uint16_t>(session.other), where, tile);
  }
  if (where.region != kBufferRegion || where.offset + where.bytes > session.buffers->size()) {
    violated("node {}: {} bytes at {} of node {}'s buffers", node, where.bytes, where.offset,
             session.other);
  }
  return session.buffers->data() + where.offset;
}

std::byte* World::own_memory(std::uint32_t node, const protocol::Tile& tile, bool up) {
  const Session& session = nodes_[node].links[tile.own.parent_id];
  const protocol::BufferLayout& buffers = schedule_.jobs[session.job].buffers;
  protocol::BufferLayout layout = buffers;
  if (schedule_.one_class) layout.classes = 1;
  const std::uint64_t offset =
      up ? layout.up_offset(tile.own.index) : layout.down_offset(tile.own.index);
  return session.buffers->data() + offset;
}

void World::stats_of(ElementType type, std::uint64_t count, const std::byte* elements,
                     std::span<BlockStats> stats) {
  std::vector<std::byte> copy(count * element_bytes(type));
  if (count == 0) return;
  const Span span{elements, copy.size()};
  const View view(&span, 1);
  std::byte* const output = copy.data();
  summation::Reduction reduction;
  reduction.type = type;
  reduction.count = count;
  reduction.inputs = std::span(&view, 1);
  reduction.outputs = std::span(&output, 1);
  reduction.stats = stats;
  summation::reduce(*summation::kernels(summation::Isa::kScalar), reduction);
}

void World::finish_transfer(std::size_t index) {
  const Transfer transfer = transfers_[index];
  transfers_[index] = transfers_.back();
  transfers_.pop_back();
  if (nodes_[transfer.node].lost) return;
  const Session& session = nodes_[transfer.node].members[transfer.where.member];
  const bool gone = session.is_rank
                        ? jobs_[session.job]->lost(static_cast<std::uint16_t>(session.other))
                        : nodes_[session.other].lost;
  nodes_[transfer.node].shard->done(transfer, gone ? Status::kPeerLost : Status::kOk);
  touched(transfer.node);
}

// -- time
// --------------------------------------------------------------------------------------

void World::run() {
  for (;;) {
    befall();
    if (act()) {
      ++events_;
      now_ += kMicrosecond;
      if (events_ > kMostEvents) violated("it goes on for ever");
    } else if (!jump()) {
      break;
    }
  }
  check_end();
}

bool World::act() {
  const bool ranks_first = random_.chance(0.1);
  for (int turn = 0; turn < 2; ++turn) {
    if (ranks_first == (turn == 0)) {
      const std::size_t start = random_.below(jobs_.size());
      for (std::size_t i = 0; i < jobs_.size(); ++i) {
        if (jobs_[(start + i) % jobs_.size()]->act()) return true;
      }
      continue;
    }
    std::uint64_t lazy = 0;
    for (const Node& node : nodes_) lazy += node.dirty && !node.lost ? 1 : 0;
    const std::uint64_t all = open_.size() + transfers_.size() + lazy;
    if (all == 0) continue;
    std::uint64_t which = random_.below(all);
    if (which < open_.size()) return deliver(which), true;
    which -= open_.size();
    if (which < transfers_.size()) return finish_transfer(which), true;
    which -= transfers_.size();
    for (Node& node : nodes_) {
      if (!node.dirty || node.lost || which-- > 0) continue;
      node.dirty = false;
      node.shard->turn();
      return true;
    }
  }
  return false;
}

// To the next deadline, or until a root is due. Without faults nothing waits for a deadline.
bool World::jump() {
  const auto done = [](const auto& job) { return job->done(); };
  const bool all_done = std::all_of(jobs_.begin(), jobs_.end(), done);
  Nanos next = kForever;
  bool waits_for_pace = false;
  for (Node& node : nodes_) {
    if (node.lost) continue;
    next = std::min(next, node.shard->protocol().next_deadline());
    waits_for_pace |= node.shard->protocol().tiles().has_held();
  }
  const bool healthy = std::all_of(schedule_.jobs.begin(), schedule_.jobs.end(),
                                   [](const JobPlan& job) { return job.fault == Fault::kNothing; });
  if (!all_done && ((healthy && !waits_for_pace) || next == kForever)) {
    std::string waiting;
    for (const auto& job : jobs_) waiting += job->unfinished();
    throw Deadlock("deadlock:" + waiting);
  }
  if (next == kForever) return false;
  trace_.write(now_, "-- until {} us", next / kMicrosecond);
  now_ = std::max(now_, next);
  for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].lost) continue;
    nodes_[node].shard->protocol().expire(now_);
    touched(node);
  }
  return true;
}

// -- what goes wrong
// ---------------------------------------------------------------------------

void World::befall() {
  for (std::size_t job = 0; job < jobs_.size(); ++job) {
    const JobPlan& plan = schedule_.jobs[job];
    if (befallen_[job] || events_ < plan.when) continue;
    befallen_[job] = true;
    jobs_[job]->befallen();
    if (plan.fault == Fault::kRankLost) lose_rank(job);
    if (plan.fault == Fault::kNodeLost) lose_node(plan.victim_node);
  }
}

void World::hang_up(std::size_t index) {
  Channel& channel = channels_[index];
  if (channel.messages.empty()) open_.push_back(index);
  channel.hangs_up = true;
}

void World::lose_rank(std::size_t job) {
  const std::uint16_t victim = schedule_.jobs[job].victim;
  trace_.write(now_, "job {}: rank {} is lost", job, victim);
  jobs_[job]->lose(victim);
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    const Channel& channel = channels_[i];
    if (channel.job == job && channel.way == Way::kFromRank && channel.from == victim) hang_up(i);
  }
}

void World::lose_node(std::uint32_t node) {
  trace_.write(now_, "node {} is lost", node);
  nodes_[node].lost = true;
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    if (channels_[i].way != Way::kFromRank && channels_[i].from == node) hang_up(i);
  }
}

// Everything has ended, and nothing is left behind.
void World::check_end() {
  for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].lost) continue;
    auto& protocol = nodes_[node].shard->protocol();
    if (nodes_[node].shard->tiles_in_flight() != 0) violated("node {}: a tile is in flight", node);
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      const auto job_id = static_cast<protocol::JobId>(job);
      if (protocol.inspect().busy(job_id)) violated("node {}: job {} is busy", node, job);
      if (!protocol.inspect().buffers_free(job_id))
        violated("node {}: job {} holds a buffer", node, job);
      const bool whole = schedule_.jobs[job].fault == Fault::kNothing;
      if (whole && protocol.inspect().operations(job_id) != 0) {
        violated("node {}: {} operations of job {} are left", node,
                 protocol.inspect().operations(job_id), job);
      }
    }
    if (protocol.tiles().has_tiles()) violated("node {} has tiles to start", node);
  }
}

}  // namespace tally::sim::trees
