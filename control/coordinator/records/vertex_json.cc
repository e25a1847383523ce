#include "control/coordinator/records/vertex_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tally::control {
namespace {

using nlohmann::json;
using protocol::ChildNode;
using protocol::kNoParent;
using protocol::Vertex;
using Ranks = std::vector<std::uint16_t>;

constexpr std::uint32_t kMaxHeight = 255;

json runs(const Ranks& ranks) {
  json list = json::array();
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    list.push_back({ranks[i], end - i});
    i = end;
  }
  return list;
}

class Parser {
 public:
  explicit Parser(const VertexBounds& bounds) : bounds_(bounds) {}

  std::optional<std::vector<Vertex>> run(const json& sent) {
    if (!sent.is_array() || sent.size() != bounds_.trees.size()) return std::nullopt;
    std::vector<Vertex> vertices;
    for (const json& one : sent) {
      if (!one.is_object()) return std::nullopt;
      seen_.assign(bounds_.ranks, false);
      for (const std::uint32_t rank : bounds_.left_out) seen_[rank] = true;
      vertices.push_back(vertex(one));
      good_ &= vertices.back().tree == bounds_.trees[vertices.size() - 1];
      if (!good_) return std::nullopt;
    }
    return vertices;
  }

 private:
  Vertex vertex(const json& sent) {
    Vertex read;
    read.tree = number(sent, "tree", UINT32_MAX);
    read.height = number(sent, "height", kMaxHeight);
    read.ranks = ranks(sent.value("ranks", json()));
    const json child_nodes = sent.value("child_nodes", json::array());
    good_ &= child_nodes.is_array() && child_nodes.size() <= bounds_.below;
    for (std::size_t i = 0; good_ && i < child_nodes.size(); ++i) {
      read.child_nodes.push_back(child_node(child_nodes[i]));
      const std::uint16_t number = read.child_nodes.back().number;
      good_ &= std::none_of(read.child_nodes.begin(), read.child_nodes.end() - 1,
                            [number](const ChildNode& other) { return other.number == number; });
    }
    if (sent.contains("parent")) {
      good_ &= bounds_.above > 0;
      read.parent = number(sent, "parent", static_cast<std::uint32_t>(bounds_.above - 1));
    }
    const bool complete = std::find(seen_.begin(), seen_.end(), false) == seen_.end();
    good_ &= read.children() > 0 && (complete || !read.is_root());
    good_ &= read.child_nodes.empty() ? read.height == 1 : read.height > 1;
    return read;
  }

  ChildNode child_node(const json& sent) {
    ChildNode read;
    good_ &= sent.is_object();
    if (!good_) return read;
    read.number = static_cast<std::uint16_t>(
        number(sent, "number", static_cast<std::uint32_t>(bounds_.below - 1)));
    read.ranks = ranks(sent.value("ranks", json()));
    good_ &= !read.ranks.empty();
    return read;
  }

  // Ranks ascend, and each occurs once in a vertex.
  Ranks ranks(const json& sent) {
    Ranks read;
    good_ &= sent.is_array() && sent.size() <= bounds_.ranks;
    for (std::size_t i = 0; good_ && i < sent.size(); ++i) {
      const json& run = sent[i];
      good_ &= run.is_array() && run.size() == 2;
      if (!good_) break;
      const std::uint32_t first = number(run[0], bounds_.ranks - 1U);
      const std::uint32_t count = number(run[1], bounds_.ranks - first);
      good_ &= count > 0 && (read.empty() || first > read.back());
      for (std::uint32_t rank = first; good_ && rank < first + count; ++rank) {
        good_ &= !seen_[rank];
        seen_[rank] = true;
        read.push_back(static_cast<std::uint16_t>(rank));
      }
    }
    return read;
  }

  std::uint32_t number(const json& sent, std::uint32_t max) {
    const bool fine = sent.is_number_unsigned() && sent.get<std::uint64_t>() <= max;
    good_ &= fine;
    return fine ? sent.get<std::uint32_t>() : 0;
  }
  std::uint32_t number(const json& object, const char* key, std::uint32_t max) {
    return number(object.value(key, json()), max);
  }

  const VertexBounds& bounds_;
  std::vector<bool> seen_;  // by rank, of the vertex that is being read
  bool good_ = true;
};

}  // namespace

bool all_stars(const std::vector<Vertex>& vertices, std::uint32_t ranks) {
  return std::all_of(vertices.begin(), vertices.end(), [&](const Vertex& vertex) {
    return vertex.is_root() && vertex.child_nodes.empty() && vertex.ranks.size() == ranks;
  });
}

json to_json(const std::vector<Vertex>& vertices) {
  json list = json::array();
  for (const Vertex& vertex : vertices) {
    json one = {{"tree", vertex.tree}, {"height", vertex.height}, {"ranks", runs(vertex.ranks)}};
    for (const ChildNode& child_node : vertex.child_nodes) {
      one["child_nodes"].push_back(
          {{"number", child_node.number}, {"ranks", runs(child_node.ranks)}});
    }
    if (!vertex.is_root()) one["parent"] = vertex.parent;
    list.push_back(std::move(one));
  }
  return list;
}

std::optional<std::vector<Vertex>> parse_vertices(const json& sent, const VertexBounds& bounds) {
  return Parser(bounds).run(sent);
}

}  // namespace tally::control
