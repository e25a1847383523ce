#include "control/sim/core/passages.h"

#include <algorithm>

namespace tally::simulator {
namespace {

// Returns the link when the machine has exactly one in this direction and it is no faster than the
// machine; else kNone.
std::uint32_t link_alone(const plan::Network& network, plan::VertexId machine, bool out) {
  std::uint32_t found = kNone;
  for (std::uint32_t i = 0; i < network.links.size(); ++i) {
    const plan::Link& link = network.links[i];
    if ((out ? link.from : link.to) != machine) continue;
    if (found != kNone) return kNone;
    found = i;
  }
  const plan::Vertex& vertex = network.vertices[machine];
  if (found != kNone && network.links[found].capacity > (out ? vertex.out : vertex.in))
    return kNone;
  return found;
}

}  // namespace

Passages::Passages(const plan::Network& network) : routes_(network) {
  const auto add = [this](const plan::Load& passage, std::uint32_t link) {
    list_.push_back(passage);
    only_links_.push_back(link);
  };
  for (const plan::Link& link : network.links) {
    add({plan::Passage::kLink, link.from, link.to, link.capacity, 0}, kNone);
  }
  for (plan::VertexId id = 0; id < network.machines(); ++id) {
    const plan::Vertex& machine = network.vertices[id];
    of_machine_.push_back(static_cast<std::uint32_t>(list_.size()));
    add({plan::Passage::kIn, id, id, machine.in, 0}, link_alone(network, id, false));
    add({plan::Passage::kOut, id, id, machine.out, 0}, link_alone(network, id, true));
    if (machine.sum) add({plan::Passage::kSum, id, id, *machine.sum, 0}, kNone);
  }
}

void Passages::append(std::uint32_t passage) {
  passages_.push_back(passage);
  ++ways_.back().count;
}

std::uint32_t Passages::way(plan::VertexId from, plan::VertexId to, bool sums) {
  const std::uint32_t plain = sums ? way(from, to, false) : kNone;
  const std::uint64_t key = (std::uint64_t{from} << 33) | (std::uint64_t{to} << 1) | (sums ? 1 : 0);
  const auto [entry, is_new] = found_.try_emplace(key, kNone);
  if (!is_new || !routes_.has(from, to)) return entry->second;
  const auto number = static_cast<std::uint32_t>(ways_.size());
  entry->second = number;
  ways_.push_back({static_cast<std::uint32_t>(passages_.size()), 0, sums ? plain : number});
  const std::uint32_t out = of_machine_[from] + 1;
  if (only_links_[out] == kNone) append(out);
  const auto links = static_cast<std::ptrdiff_t>(passages_.size());
  routes_.walk(from, to, [this](std::uint32_t link) { append(link); });
  std::reverse(passages_.begin() + links, passages_.end());
  const std::uint32_t in = of_machine_[to];
  if (only_links_[in] == kNone) append(in);
  if (sums && network().vertices[to].sum) append(in + 2);
  return number;
}

}  // namespace tally::simulator
