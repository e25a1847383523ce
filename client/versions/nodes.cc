#include "client/versions/nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dataplane/wire/notice.h"

namespace tally::client {

using nlohmann::json;

Nodes::Nodes(std::vector<SessionNode> nodes) : nodes_(std::move(nodes)) {
  for (SessionNode& node : nodes_) {
    const std::uint32_t first = shards();
    for (std::size_t at = 0; at < node.trees.size(); ++at) {
      const std::uint32_t tree = node.trees[at];
      if (tree >= shards_of_trees_.size()) shards_of_trees_.resize(tree + 1);
      shards_of_trees_[tree] = first + node.shards[at];
    }
    const std::string_view transport = node.connection->transport();
    if (transport_.find(transport) == std::string::npos) {
      transport_.append(transport_.empty() ? "" : ", ").append(transport);
    }
    connections_.add(std::move(node.connection));
  }
}

std::string SessionNode::title() const {
  return name.empty() ? fmt::format("the node at {}", channel.address())
                      : fmt::format("node \"{}\" at {}", name, channel.address());
}

Error Nodes::of(const SessionNode& node, const Error& error) const {
  if (size() == 1) return error;
  return {error.status, fmt::format("{}: {}", node.title(), error.message)};
}

MemoryNeeds Nodes::memory_needs() const {
  MemoryNeeds needs{transport_, false, true};
  for (std::size_t i = 0; i < size(); ++i) {
    needs.shared |= connections_[i].wants_shared_memory();
    needs.adapter &= connections_[i].has_adapter();
  }
  return needs;
}

// -- regions -------------------------------------------------------------------------------------

std::uint32_t read_region(const json& registered) {
  const auto found = registered.find("region");
  if (found == registered.end() || !found->is_number_unsigned()) return 0;
  const auto number = found->get<std::uint64_t>();
  return number <= wire::kMaxRegions ? static_cast<std::uint32_t>(number) : 0;
}

Outcome Nodes::room_for(std::uint64_t bytes, Nanos deadline) {
  for (SessionNode& node : nodes_) {
    auto reply = node.channel.call("region.check", {{"bytes", bytes}}, {}, deadline);
    if (!reply && reply.status() != Status::kUnsupported) return of(node, reply.error());
  }
  return Unit{};
}

// `number` is the requested number. 0: the node chooses, and `number` becomes its choice.
Outcome Nodes::add_to(std::size_t node, const Region& region, std::uint32_t& number,
                      Nanos deadline) {
  Connection& connection = connections_[node];
  rpc::RpcChannel& channel = nodes_[node].channel;
  auto offer = connection.offer(region);
  if (!offer) return offer.error();
  if (number != 0) offer->params["region"] = number;
  auto reply = channel.call("region.register", std::move(offer->params), offer->fds, deadline);
  const std::uint32_t answered = reply ? read_region(*reply) : 0;
  if (answered != 0 && (number == 0 || answered == number)) {
    number = answered;
    return Unit{};
  }
  connection.withdraw(region);
  return reply ? rpc::unreadable("region.register", channel) : reply.error();
}

Result<std::uint32_t> Nodes::add_region(const Region& region, Nanos deadline,
                                        std::uint32_t wished) {
  std::uint32_t number = wished;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    auto added = add_to(i, region, number, deadline);
    if (added) continue;
    take_back(i, region, number, deadline);
    return of(nodes_[i], added.error());
  }
  bases_.set(number, region.base_offset());
  return number;
}

Outcome Nodes::remove_from(std::size_t node, const Region& region, std::uint32_t number,
                           Nanos deadline) {
  auto reply = nodes_[node].channel.call("region.deregister", {{"region", number}}, {}, deadline);
  // An earlier call that timed out may have deregistered the region.
  const bool done =
      reply || reply.status() == Status::kNodeLost || reply.status() == Status::kBadRegion;
  if (!done) return reply.error();
  connections_[node].withdraw(region);
  return Unit{};
}

void Nodes::take_back(std::size_t count, const Region& region, std::uint32_t number,
                      Nanos deadline) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!remove_from(i, region, number, deadline)) connections_[i].withdraw(region);
  }
}

Outcome Nodes::remove_region(const Region& region, Nanos deadline) {
  for (std::size_t i = 0; i < size(); ++i) {
    if (auto done = remove_from(i, region, region.id, deadline); !done) {
      return of(nodes_[i], done.error());
    }
  }
  bases_.erase(region.id);
  return Unit{};
}

bool Nodes::send(std::uint32_t shard, wire::Notice notice,
                 std::span<const std::byte> contribution) const {
  if (connections_.of_shard(shard).wants_shared_memory()) {
    const auto base = [this](std::uint32_t region) {
      const std::uint64_t* found = bases_.find(region);
      return found != nullptr ? *found : 0;
    };
    notice.in_offset += base(notice.in_region);
    notice.out_offset += base(notice.out_region);
  }
  return connections_.send(shard, notice, contribution);
}

// -- texts ---------------------------------------------------------------------------------------

std::string Nodes::why_gone() const {
  std::vector<std::string> whys;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!connections_.is_gone(i)) continue;
    whys.push_back(fmt::format("{}: {}", nodes_[i].title(), connections_[i].why_gone()));
  }
  return fmt::format("{}", fmt::join(whys, "; "));
}

std::string Nodes::titles_where(const std::function<bool(std::size_t)>& chosen) const {
  std::vector<std::string> titles;
  for (std::size_t i = 0; i < size(); ++i) {
    if (chosen(i)) titles.push_back(nodes_[i].title());
  }
  return fmt::format("{}", fmt::join(titles, ", "));
}

std::vector<std::string> Nodes::addresses() const {
  std::vector<std::string> addresses;
  for (const SessionNode& node : nodes_) addresses.push_back(node.channel.address());
  return addresses;
}

std::string Nodes::titles() const {
  return titles_where([](std::size_t) { return true; });
}

std::string Nodes::titles_of(const std::vector<std::uint32_t>& shards) const {
  return titles_where([&](std::size_t node) {
    return std::any_of(shards.begin(), shards.end(),
                       [&](auto shard) { return connections_.index_of(shard) == node; });
  });
}

std::string Nodes::titles_of_broken() const {
  return titles_where([this](std::size_t node) { return connections_[node].broken(); });
}

void Nodes::hang_up() {
  connections_.hang_up();
  for (SessionNode& node : nodes_) node.channel.hang_up();
}

Outcome Nodes::close(Nanos deadline) {
  Outcome all = Unit{};
  for (SessionNode& node : nodes_) {
    auto closed = node.channel.call("session.close", json::object(), {}, deadline);
    if (!closed && all) all = of(node, closed.error());
  }
  return all;
}

}  // namespace tally::client
