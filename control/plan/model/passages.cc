#include "control/plan/model/passages.h"

namespace tally::plan {

Passages::Passages(Routes& routes) : routes_(routes) {
  for (const Link& link : network().links) {
    places_.push_back({Passage::kLink, link.from, link.to, link.capacity});
  }
  const std::size_t machines = network().machines();
  for (VertexId id = 0; id < machines; ++id) {
    const Vertex& machine = network().vertices[id];
    first_of_.push_back(places_.size());
    places_.push_back({Passage::kIn, id, id, machine.in});
    places_.push_back({Passage::kOut, id, id, machine.out});
    if (machine.sum) places_.push_back({Passage::kSum, id, id, *machine.sum});
  }
}

void Passages::add(const Parents& parents, bool up, double share,
                   std::vector<double>& bytes) const {
  const auto count = [&](std::size_t passage) { bytes[passage] += share; };
  for (VertexId child = 0; child < parents.size(); ++child) {
    if (parents[child] < 0) continue;
    const auto parent = static_cast<VertexId>(parents[child]);
    cross(up ? child : parent, up ? parent : child, count);
    const auto sums = up ? sum(parent) : std::nullopt;
    if (sums) count(*sums);
  }
}

}  // namespace tally::plan
