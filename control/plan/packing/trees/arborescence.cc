#include "control/plan/packing/trees/arborescence.h"

#include <algorithm>
#include <limits>

namespace tally::plan {
namespace {

// A member, or a circle of parts that were joined. The first ones are the members.
struct Part {
  struct Exit {
    std::size_t from = 0;  // members
    std::size_t to = 0;
    double price = 0;  // above that of the edges which it replaces
  };

  std::vector<Exit> exits;  // the cheapest to each member, by member
  Exit taken;
  std::vector<std::size_t> inside;
  std::size_t above = SIZE_MAX;  // the circle that it was joined to
};

class Growth {
 public:
  Growth(const Square& prices, std::span<const VertexId> members, VertexId root)
      : prices_(prices), members_(members), root_(root), top_of_(members.size()) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      top_of_[i] = i;
      Part part;
      for (std::size_t j = 0; j < members.size(); ++j) {
        part.exits.push_back({i, j, prices.at(members[i], members[j])});
      }
      parts_.push_back(std::move(part));
      done_.push_back(members[i] == root);
    }
  }

  std::optional<Arborescence> run() {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (!done_[top_of_[i]] && !grow(top_of_[i])) return std::nullopt;
    }
    return expand();
  }

 private:
  // Grows a path from this part until it reaches a part from which a path leads to the root.
  bool grow(std::size_t start) {
    std::vector<std::size_t> path = {start};
    for (;;) {
      const std::size_t at = path.back();
      const auto best = std::min_element(
          parts_[at].exits.begin(), parts_[at].exits.end(), [&](const auto& a, const auto& b) {
            const bool a_leaves = top_of_[a.to] != at, b_leaves = top_of_[b.to] != at;
            return a_leaves != b_leaves ? a_leaves : a.price < b.price;
          });
      if (top_of_[best->to] == at || !(best->price < std::numeric_limits<double>::infinity())) {
        return false;
      }
      parts_[at].taken = *best;
      const std::size_t next = top_of_[best->to];
      if (done_[next]) break;
      const auto circle = std::find(path.begin(), path.end(), next);
      if (circle == path.end()) {
        path.push_back(next);
      } else {
        const std::size_t joined = join({circle, path.end()});
        path.erase(circle, path.end());
        path.push_back(joined);
      }
    }
    for (const std::size_t part : path) done_[part] = true;
    return true;
  }

  std::size_t join(std::vector<std::size_t> circle) {
    const std::size_t index = parts_.size();
    Part joined;
    for (std::size_t to = 0; to < members_.size(); ++to) {
      Part::Exit best{0, to, std::numeric_limits<double>::infinity()};
      for (const std::size_t part : circle) {
        Part::Exit exit = parts_[part].exits[to];
        exit.price -= parts_[part].taken.price;
        if (exit.price < best.price) best = exit;
      }
      joined.exits.push_back(best);
    }
    for (const std::size_t part : circle) parts_[part].above = index;
    for (std::size_t& top : top_of_) {
      if (std::find(circle.begin(), circle.end(), top) != circle.end()) top = index;
    }
    joined.inside = std::move(circle);
    parts_.push_back(std::move(joined));
    done_.push_back(false);
    return index;
  }

  // Opens the circles again, the last first. The part from which a circle's edge leaves gives up
  // its own edge.
  Arborescence expand() {
    for (std::size_t circle = parts_.size(); circle-- > members_.size();) {
      std::size_t part = parts_[circle].taken.from;
      while (parts_[part].above != circle) part = parts_[part].above;
      parts_[part].taken = parts_[circle].taken;
    }
    Arborescence found{0, Parents(prices_.size(), kIsAbsent)};
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const VertexId parent = members_[parts_[i].taken.to];
      found.parents[members_[i]] = static_cast<std::int32_t>(parent);
      if (members_[i] != root_) found.price += prices_.at(members_[i], parent);
    }
    found.parents[root_] = kIsRoot;
    return found;
  }

  const Square& prices_;
  std::span<const VertexId> members_;
  VertexId root_;
  std::vector<Part> parts_;
  std::vector<std::size_t> top_of_;  // by member: the part of parts that it is in
  std::vector<bool> done_;           // by part: its path leads to the root
};

}  // namespace

std::optional<Arborescence> cheapest_arborescence(const Square& prices,
                                                  std::span<const VertexId> members,
                                                  VertexId root) {
  return Growth(prices, members, root).run();
}

}  // namespace tally::plan
