#include "client/nodes.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <set>

#include "base/epoll.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

using nlohmann::json;

Nodes::Nodes(std::vector<SessionNode> nodes) : nodes_(std::move(nodes)) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const SessionNode& node = nodes_[i];
    const std::uint32_t first = lanes();
    for (std::uint32_t shard = 0; shard < node.link->shards(); ++shard) {
      places_.push_back({static_cast<std::uint32_t>(i), shard});
    }
    for (std::size_t at = 0; at < node.trees.size(); ++at) {
      const std::uint32_t tree = node.trees[at];
      if (tree >= lanes_of_trees_.size()) lanes_of_trees_.resize(tree + 1);
      lanes_of_trees_[tree] = first + node.shards[at];
    }
    const std::string_view transport = node.link->transport();
    if (transport_.find(transport) == std::string::npos) {
      transport_.append(transport_.empty() ? "" : ", ").append(transport);
    }
  }
}

bool Nodes::watch_in(int epoll) const {
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [epoll](const auto& node) { return watch(epoll, node.link->fd(), EPOLLIN); });
}

MemoryNeeds Nodes::memory_needs() const {
  const bool shared = std::any_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
    return node.link->wants_shared_memory();
  });
  const bool adapter = std::all_of(nodes_.begin(), nodes_.end(),
                                   [](const auto& node) { return node.link->has_adapter(); });
  return {transport_, shared, adapter};
}

// -- regions -------------------------------------------------------------------------------------

std::uint32_t read_region(const json& registered) {
  const auto found = registered.find("region");
  if (found == registered.end() || !found->is_number_unsigned()) return 0;
  const auto number = found->get<std::uint64_t>();
  return number <= wire::kMaxRegions ? static_cast<std::uint32_t>(number) : 0;
}

// `number`: the wished one; 0: the node's choice, which it becomes.
Outcome Nodes::add_to(SessionNode& node, const Region& region, std::uint32_t& number,
                      Nanos deadline) {
  auto offer = node.link->offer(region);
  if (!offer) return offer.error();
  if (number != 0) offer->params["region"] = number;
  auto reply = node.channel.call("region.register", std::move(offer->params), offer->fds, deadline);
  if (!reply) {
    node.link->withdraw(region);
    return reply.error();
  }
  const std::uint32_t told = read_region(*reply);
  if (told != 0 && (number == 0 || told == number)) {
    number = told;
    return Unit{};
  }
  node.link->withdraw(region);
  return unreadable("region.register", node.channel);
}

Result<std::uint32_t> Nodes::add_region(const Region& region, Nanos deadline,
                                        std::uint32_t wished) {
  std::uint32_t number = wished;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    auto added = add_to(nodes_[i], region, number, deadline);
    if (added) continue;
    take_back(std::span(nodes_).first(i), region, number, deadline);
    return added.error();
  }
  if (number >= bases_.size()) bases_.resize(number + 1);
  bases_[number] = region.base_offset();
  return number;
}

Outcome Nodes::remove_from(SessionNode& node, const Region& region, std::uint32_t number,
                           Nanos deadline) {
  auto reply = node.channel.call("region.deregister", {{"region", number}}, {}, deadline);
  // An earlier call that timed out may have done it all the same.
  const bool done =
      reply || reply.status() == Status::kNodeLost || reply.status() == Status::kBadRegion;
  if (!done) return reply.error();
  node.link->withdraw(region);
  return Unit{};
}

void Nodes::take_back(std::span<SessionNode> nodes, const Region& region, std::uint32_t number,
                      Nanos deadline) {
  for (SessionNode& node : nodes) {
    if (!remove_from(node, region, number, deadline)) node.link->withdraw(region);
  }
}

Outcome Nodes::remove_region(const Region& region, Nanos deadline) {
  for (SessionNode& node : nodes_) {
    if (auto done = remove_from(node, region, region.id, deadline); !done) return done;
  }
  return Unit{};
}

void Nodes::withdraw(const Region& region) {
  for (SessionNode& node : nodes_) node.link->withdraw(region);
}

// -- the data path -------------------------------------------------------------------------------

bool Nodes::send(std::uint32_t lane, wire::Notice notice, std::span<const std::byte> contribution) {
  Link& link = *node_of(lane).link;
  if (link.wants_shared_memory()) {
    const auto base = [this](std::uint32_t region) {
      return region < bases_.size() ? bases_[region] : 0;
    };
    notice.in_offset += base(notice.in_region);
    notice.out_offset += base(notice.out_region);
  }
  return link.send(places_[lane].shard, notice, contribution);
}

std::size_t Nodes::eager_bytes(std::uint32_t lane) const {
  return node_of(lane).link->eager_bytes();
}

std::size_t Nodes::receive(std::uint32_t lane, std::span<RingSlot> out) {
  return node_of(lane).link->receive(places_[lane].shard, out);
}

bool Nodes::broken() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const auto& node) { return node.link->broken(); });
}

// All of them, also where one has something already.
bool Nodes::arm(Nanos until) {
  bool armed = true;
  for (SessionNode& node : nodes_) armed &= node.link->arm(until);
  return armed;
}

void Nodes::disarm() {
  for (SessionNode& node : nodes_) node.link->disarm();
}

bool Nodes::hear() {
  bool gone = false;
  for (SessionNode& node : nodes_) gone |= node.gone = node.link->hear();
  return gone;
}

std::string Nodes::why_gone() const {
  if (size() == 1) return first().why_gone();
  std::string why;
  for (const SessionNode& node : nodes_) {
    if (!node.gone) continue;
    why += fmt::format("{}the node at {}: {}", why.empty() ? "" : "; ", node.channel.address(),
                       node.link->why_gone());
  }
  return why;
}

std::string Nodes::nodes_of(const std::vector<std::uint32_t>& lanes) const {
  std::set<std::string> addresses;
  for (const std::uint32_t lane : lanes) addresses.insert(node_of(lane).channel.address());
  return fmt::format("{}", fmt::join(addresses, ", "));
}

bool Nodes::fence(Nanos deadline) {
  bool fenced = true;
  for (SessionNode& node : nodes_) fenced &= node.link->fence(deadline);
  return fenced;
}

void Nodes::hang_up() {
  for (SessionNode& node : nodes_) node.link->hang_up();
}

Outcome Nodes::close(Nanos deadline) {
  Outcome all = Unit{};
  for (SessionNode& node : nodes_) {
    auto closed = node.channel.call("session.close", json::object(), {}, deadline);
    if (!closed && all) all = closed.error();
  }
  return all;
}

}  // namespace tally::client
