#include "control/plan/model/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "control/plan/model/dual_bound.h"
#include "control/plan/model/load.h"
#include "control/plan/model/tree.h"

namespace tally::plan {
namespace {

// Tolerance of a certificate, for doubles that were added in another order.
constexpr double kSlack = 1e-6;

template <typename... Arguments>
Error wrong(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return Error{Status::kInvalidArgument, fmt::format(text, std::forward<Arguments>(arguments)...)};
}

bool is_speed(double value) {
  return std::isfinite(value) && value >= kMinSpeed && value <= kMaxSpeed;
}

Error bad_speed(const std::string& place, double value) {
  return wrong("{} = {}: must be from {:g} to {:g} bytes per second", place, value, kMinSpeed,
               kMaxSpeed);
}

Outcome check_vertex(const Network& network, std::size_t id) {
  const Vertex& vertex = network.vertices[id];
  const std::string place = fmt::format("nodes[{}]", id);
  if (vertex.role == Role::kSwitch) {
    if (vertex.in == 0 && vertex.out == 0 && !vertex.sum) return Unit{};
    return wrong("{}: a switch has no in, out or sum; give its links their capacities", place);
  }
  if (id >= network.machines()) {
    return wrong("{}.role = \"{}\": nodes[{}] is a switch; list the switches last", place,
                 role_name(vertex.role), network.machines());
  }
  if (!is_speed(vertex.in)) return bad_speed(place + ".in", vertex.in);
  if (!is_speed(vertex.out)) return bad_speed(place + ".out", vertex.out);
  if (vertex.sum && !is_speed(*vertex.sum)) return bad_speed(place + ".sum", *vertex.sum);
  return Unit{};
}

Outcome check_link(const Network& network, std::size_t index,
                   std::set<std::pair<VertexId, VertexId>>& known) {
  const Link& link = network.links[index];
  const std::string place = fmt::format("links[{}]", index);
  for (const VertexId end : {link.from, link.to}) {
    if (end >= network.vertices.size()) {
      return wrong("{} = [{}, {}]: there is no node {}; ids go from 0 to {}", place, link.from,
                   link.to, end, network.vertices.size() - 1);
    }
  }
  if (link.from == link.to) {
    return wrong("{} = [{}, {}]: joins a node to itself; leave it out", place, link.from, link.to);
  }
  if (!is_speed(link.capacity)) return bad_speed(place + "[2]", link.capacity);
  if (!known.insert({link.from, link.to}).second) {
    return wrong("{} = [{}, {}]: given twice; add their capacities into one", place, link.from,
                 link.to);
  }
  const auto check_end = [&](VertexId end, double speed, const char* name) -> Outcome {
    if (network.vertices[end].role == Role::kSwitch || link.capacity <= speed) return Unit{};
    return wrong("{}[2] = {}: more than nodes[{}].{} = {}; correct one of the two", place,
                 link.capacity, end, name, speed);
  };
  if (auto out = check_end(link.from, network.vertices[link.from].out, "out"); !out) return out;
  return check_end(link.to, network.vertices[link.to].in, "in");
}

// Checks the trees of one domain against the network.
class DomainCheck {
 public:
  DomainCheck(const Domain& domain, std::string place, Routes& routes, const Limits& limits)
      : domain_(domain), place_(std::move(place)), routes_(routes), limits_(limits) {}

  Outcome run() {
    if (auto workers = check_workers(); !workers) return workers;
    if (domain_.classes.empty()) return wrong("{}.classes: must have at least one", place_);
    for (std::size_t i = 0; i < domain_.classes.size(); ++i) {
      if (auto outcome = check_class(i); !outcome) return outcome;
    }
    if (auto order = check_rs_ag(); !order) return order;
    if (auto tensors = check_tensors(); !tensors) return tensors;
    return check_certificate();
  }

 private:
  Outcome check_workers() {
    const auto& workers = domain_.workers;
    is_worker_.assign(routes_.network().machines(), false);
    if (workers.empty()) return wrong("{}.workers: must name at least one", place_);
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const std::string place = fmt::format("{}.workers[{}] = {}", place_, i, workers[i]);
      if (workers[i] >= is_worker_.size() ||
          routes_.network().vertices[workers[i]].role != Role::kWorker) {
        return wrong("{}: must be the id of a node whose role is worker", place);
      }
      if (i > 0 && workers[i] <= workers[i - 1]) {
        return wrong("{}: comes after {}; list the workers ascending, each once", place,
                     workers[i - 1]);
      }
      is_worker_[workers[i]] = true;
    }
    return Unit{};
  }

  Outcome check_class(std::size_t index) {
    const SizeClass& size_class = domain_.classes[index];
    const std::string place = fmt::format("{}.classes[{}]", place_, index);
    const bool is_last = index + 1 == domain_.classes.size();
    if (is_last && size_class.max_bytes) {
      return wrong("{}.max_bytes = {}: must be null, the last class is for any size", place,
                   *size_class.max_bytes);
    }
    if (!is_last && !size_class.max_bytes) {
      return wrong("{}.max_bytes = null: only the last class is for any size", place);
    }
    if (index > 0 && !is_last && *size_class.max_bytes <= *domain_.classes[index - 1].max_bytes) {
      return wrong("{}.max_bytes = {}: must be more than the {} of the class before it", place,
                   *size_class.max_bytes, *domain_.classes[index - 1].max_bytes);
    }
    if (size_class.chunk == 0) return wrong("{}.chunk = 0: must be at least 1 byte", place);
    if (auto weights = check_weights(size_class, place); !weights) return weights;
    for (std::size_t i = 0; i < size_class.trees.size(); ++i) {
      const Tree& tree = size_class.trees[i];
      const std::string tree_place = fmt::format("{}.trees[{}].", place, i);
      if (auto up = check_way(tree.up, tree_place + "up", true, tree.down.empty()); !up) return up;
      if (tree.down.empty()) continue;
      if (auto down = check_way(tree.down, tree_place + "down", false, true); !down) return down;
      if (auto same = check_roots(tree, tree_place); !same) return same;
    }
    return Unit{};
  }

  static Outcome check_weights(const SizeClass& size_class, const std::string& place) {
    if (size_class.trees.empty()) return wrong("{}.trees: must have at least one", place);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < size_class.trees.size(); ++i) {
      const std::uint32_t weight = size_class.trees[i].weight;
      if (weight == 0 || weight > kWeightUnit) {
        return wrong("{}.trees[{}].w = {}: must be from 1 to {}; leave out a tree without weight",
                     place, i, weight, kWeightUnit);
      }
      sum += weight;
    }
    if (sum == kWeightUnit) return Unit{};
    return wrong("{}.trees: their weights sum to {}; must be {}", place, sum, kWeightUnit);
  }

  // Checks one direction of a tree. `goes_up` and `goes_down` are the directions that its edges
  // carry.
  Outcome check_way(const Parents& parents, const std::string& place, bool goes_up,
                    bool goes_down) {
    if (parents.size() != is_worker_.size()) {
      return wrong("{}: {} entries; must be {}, one for each worker and helper of the network",
                   place, parents.size(), is_worker_.size());
    }
    const auto shape = Shape::of(parents, place);
    if (!shape) return shape.error();
    for (VertexId id = 0; id < parents.size(); ++id) {
      if (is_worker_[id] && !shape->has(id)) {
        return wrong("{}[{}] = -2: worker {} of the domain is missing; every tree has all of them",
                     place, id, id);
      }
      if (shape->has(id) && !is_worker_[id] && shape->children(id).empty()) {
        return wrong("{}[{}] = {}: a leaf that is no worker of the domain; leave it out (-2)",
                     place, id, parents[id]);
      }
      if (auto route = check_edge(parents, id, place, goes_up, goes_down); !route) return route;
    }
    return check_height(shape->depth(), place);
  }

  Outcome check_height(std::uint32_t levels, const std::string& place) const {
    if (levels <= limits_.max_height) return Unit{};
    if (levels > kServedHeight) {
      return wrong("{}: {} levels; nodes have buffers for {}: make it flatter", place, levels,
                   kServedHeight);
    }
    return wrong(
        "{}: {} levels; the limit here is {} (--max-height): raise it, or make the tree "
        "flatter",
        place, levels, limits_.max_height);
  }

  Outcome check_edge(const Parents& parents, VertexId child, const std::string& place, bool goes_up,
                     bool goes_down) {
    if (parents[child] < 0) return Unit{};
    const auto parent = static_cast<VertexId>(parents[child]);
    const bool up = !goes_up || routes_.has(child, parent);
    if (up && (!goes_down || routes_.has(parent, child))) return Unit{};
    return wrong(
        "{}[{}] = {}: the network has no route from {} to {}; add links, or take another "
        "parent",
        place, child, parent, up ? parent : child, up ? child : parent);
  }

  // The root sends a sum down at once, so both directions must have the same root.
  static Outcome check_roots(const Tree& tree, const std::string& place) {
    const auto root = [](const Parents& parents) {
      return std::find(parents.begin(), parents.end(), kIsRoot) - parents.begin();
    };
    if (root(tree.up) == root(tree.down)) return Unit{};
    return wrong("{}down[{}] = -1: the root must be that of up, {}", place, root(tree.down),
                 root(tree.up));
  }

  // The coordinator numbers trees as they appear, equal ones once, and cuts by these numbers.
  Outcome check_rs_ag() const {
    const SizeClass& last = domain_.classes.back();
    const auto same = [](const Tree& a, const Tree& b) {
      return a.up == b.up && a.way_down() == b.way_down();
    };
    for (std::size_t i = 0; i < domain_.classes.size(); ++i) {
      const SizeClass& one = domain_.classes[i];
      if (one.rs_ag != last.rs_ag) {
        return wrong(
            "{}.classes[{}]: is for other collectives than the last class; make a plan for "
            "each",
            place_, i);
      }
      if (!last.rs_ag) continue;
      if (!std::equal(one.trees.begin(), one.trees.end(), last.trees.begin(), last.trees.end(),
                      same)) {
        return wrong(
            "{}.classes[{}].trees: must be those of the last class, in the same order, "
            "with the objective \"rs-ag\"",
            place_, i);
      }
    }
    if (!last.rs_ag) return Unit{};
    std::set<std::pair<Parents, Parents>> known;
    for (std::size_t i = 0; i < last.trees.size(); ++i) {
      if (known.emplace(last.trees[i].up, last.trees[i].way_down()).second) continue;
      return wrong("{}.classes[{}].trees[{}]: is there twice; add the weights into one tree",
                   place_, domain_.classes.size() - 1, i);
    }
    return Unit{};
  }

  Outcome check_tensors() const {
    for (std::size_t i = 1; i < domain_.tensors.size(); ++i) {
      const std::uint32_t before = domain_.tensors[i - 1].tag, tag = domain_.tensors[i].tag;
      if (before < tag) continue;
      return wrong("{}.tensors[{}][0] = {}: must be above {}, the tag before it", place_, i, tag,
                   before);
    }
    return Unit{};
  }

  Outcome check_certificate() {
    if (!domain_.certificate) return Unit{};
    const auto& [tau, lower_bound, dual] = *domain_.certificate;
    if (!std::isfinite(tau) || !std::isfinite(lower_bound) || lower_bound < 0 ||
        lower_bound > tau * (1 + kSlack)) {
      return wrong("{}.cert: tau {} and lb {}: must be 0 <= lb <= tau", place_, tau, lower_bound);
    }
    const double found = evaluate(routes_, domain_.classes.back()).tau;
    if (std::abs(found - tau) > kSlack * found) {
      return wrong("{}.cert.tau = {}: the loads of the last class give {}; plan anew", place_, tau,
                   found);
    }
    if (dual.empty()) return Unit{};
    if (domain_.classes.back().rs_ag) {
      return wrong("{}.cert.dual: proves the times of all-reduces only; leave it out", place_);
    }
    const auto proved = dual_bound(routes_, domain_.workers, dual, place_ + ".cert.dual");
    if (!proved) return proved.error();
    if (lower_bound <= *proved * (1 + kSlack)) return Unit{};
    return wrong("{}.cert.lb = {}: its dual proves {} only; plan anew", place_, lower_bound,
                 *proved);
  }

  const Domain& domain_;
  std::string place_;
  Routes& routes_;
  const Limits& limits_;
  std::vector<bool> is_worker_;  // of the domain, by machine
};

}  // namespace

Outcome validate(const Network& network) {
  if (network.machines() == 0)
    return wrong("nodes: must begin with a worker or helper; list the switches last");
  if (network.vertices.size() > kMaxVertices) {
    return wrong("nodes: {} of them; at most {}", network.vertices.size(), kMaxVertices);
  }
  for (std::size_t id = 0; id < network.vertices.size(); ++id) {
    if (auto vertex = check_vertex(network, id); !vertex) return vertex;
  }
  std::set<std::pair<VertexId, VertexId>> known;
  for (std::size_t i = 0; i < network.links.size(); ++i) {
    if (auto link = check_link(network, i, known); !link) return link;
  }
  return Unit{};
}

Outcome validate(const Plan& plan, const Limits& limits) {
  if (auto network = validate(plan.network); !network) return network;
  if (plan.domains.empty()) return wrong("domains: must have at least one");
  Routes routes(plan.network);
  std::set<std::string> names;
  for (std::size_t i = 0; i < plan.domains.size(); ++i) {
    const std::string place = fmt::format("domains[{}]", i);
    if (!names.insert(plan.domains[i].name).second) {
      return wrong("{}.name = \"{}\": another domain has it; give it its own", place,
                   plan.domains[i].name);
    }
    if (auto domain = DomainCheck(plan.domains[i], place, routes, limits).run(); !domain) {
      return domain;
    }
  }
  return validate_sections(plan);
}

}  // namespace tally::plan
