#include "control/plan/drawing/dot.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "control/plan/model/tree.h"

namespace tally::plan {
namespace {

constexpr double kWidest = 6;  // points, of the arrow that all bytes take

// A label of several lines. In labels, dot gives a meaning to backslashes and to entities of HTML.
std::string label_of(std::initializer_list<std::string_view> lines) {
  std::string label;
  for (const std::string_view line : lines) {
    label += label.empty() ? "" : "\\n";
    for (const char c : line) {
      if (c == '"' || c == '\\') label += '\\';
      label += c == '&' ? std::string("&amp;") : std::string(1, c);
    }
  }
  return fmt::format("\"{}\"", label);
}

std::string percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

class Drawing {
 public:
  Drawing(const Network& network, std::span<const VertexId> workers, std::span<const Tree> trees)
      : network_(network),
        has_several_(trees.size() > 1),
        is_worker_(network.machines(), false),
        is_used_(network.machines(), false),
        root_shares_(network.machines(), 0) {
    for (const VertexId id : workers) is_worker_[id] = true;
    for (const Tree& tree : trees) add(tree);
    find_frames();
  }

  std::string text(const std::string& title) const {
    std::string text = "digraph trees {\n  rankdir=BT; labelloc=t; fontname=\"sans-serif\";\n";
    text += fmt::format("  label={};\n", label_of({title}));
    text += "  node [fontname=\"sans-serif\"]; edge [fontname=\"sans-serif\", fontsize=10];\n";
    for (auto id = static_cast<VertexId>(network_.machines()); id < network_.vertices.size();
         ++id) {
      text += frame_text(id);
    }
    for (VertexId id = 0; id < frame_.size(); ++id) {
      if (!frame_[id]) text += "  " + machine_text(id);
    }
    for (const auto& [ends, share] : up_) text += arrow_text(ends.first, ends.second, share, true);
    for (const auto& [ends, share] : down_) {
      text += arrow_text(ends.first, ends.second, share, false);
    }
    return text + links_text() + "}\n";
  }

 private:
  void add(const Tree& tree) {
    const double share = static_cast<double>(tree.weight) / kWeightUnit;
    for (VertexId id = 0; id < tree.up.size(); ++id) {
      if (tree.up[id] == kIsAbsent) continue;
      is_used_[id] = true;
      if (tree.up[id] == kIsRoot) {
        root_shares_[id] += share;
      } else {
        up_[{id, static_cast<VertexId>(tree.up[id])}] += share;
      }
    }
    if (tree.down == tree.up) return;
    for (VertexId id = 0; id < tree.down.size(); ++id) {
      if (tree.down[id] != kIsAbsent) is_used_[id] = true;
      if (tree.down[id] >= 0) down_[{static_cast<VertexId>(tree.down[id]), id}] += share;
    }
  }

  // The frame of a machine is the switch with the lowest id to which it has a link.
  void find_frames() {
    frame_.resize(network_.machines());
    for (const Link& link : network_.links) {
      if (link.from >= frame_.size() || link.to < frame_.size()) continue;
      frame_[link.from] = std::min(frame_[link.from].value_or(link.to), link.to);
    }
  }

  // The switch, and the machines in its frame.
  std::string frame_text(VertexId at) const {
    const std::string name = label_of({network_.name_of(at)});
    const std::string node =
        fmt::format("v{} [label={}, shape=diamond, color=gray40, fontcolor=gray40];\n", at, name);
    if (std::find(frame_.begin(), frame_.end(), std::optional(at)) == frame_.end()) {
      return "  " + node;
    }
    std::string text = fmt::format("  subgraph cluster_{} {{\n", at);
    text += fmt::format("    label={}; color=gray60; style=rounded;\n    {}", name, node);
    for (VertexId id = 0; id < frame_.size(); ++id) {
      if (frame_[id] == at) text += "    " + machine_text(id);
    }
    return text + "  }\n";
  }

  std::string machine_text(VertexId id) const {
    const bool is_root = root_shares_[id] > 0;
    const std::string name = network_.name_of(id);
    const std::string root = has_several_ ? "root of " + percent(root_shares_[id]) : "root";
    const std::string label = is_root ? label_of({name, root}) : label_of({name});
    const char* look = is_root        ? ", color=red, penwidth=3"
                       : is_used_[id] ? ""
                                      : ", color=gray60, fontcolor=gray60";
    return fmt::format("v{} [label={}, shape={}, style=filled, fillcolor=\"{}\"{}];\n", id, label,
                       is_worker_[id] ? "box" : "ellipse",
                       !is_used_[id]    ? "white"
                       : is_worker_[id] ? "#cfe2f3"
                                        : "#d9ead3",
                       look);
  }

  std::string arrow_text(VertexId from, VertexId to, double share, bool is_up) const {
    std::string text = fmt::format("  v{} -> v{} [penwidth={:.2f}", from, to,
                                   std::max(1.0, kWidest * (has_several_ ? share : 0)));
    if (has_several_) text += fmt::format(", label=\"{}\"", percent(share));
    if (!is_up) text += ", style=dashed, color=blue, fontcolor=blue, constraint=false";
    return text + "];\n";
  }

  // A line for both directions of a link. The frame shows the link of a machine in it.
  std::string links_text() const {
    std::vector<std::pair<VertexId, VertexId>> lines;
    for (const Link& link : network_.links) {
      const auto [one, other] = std::minmax(link.from, link.to);
      if (one < frame_.size() && frame_[one] == other) continue;
      lines.emplace_back(one, other);
    }
    std::sort(lines.begin(), lines.end());
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
    std::string text;
    for (const auto& [one, other] : lines) {
      text += fmt::format(
          "  v{} -> v{} [dir=none, style=dotted, color=gray40, constraint=false];\n", one, other);
    }
    return text;
  }

  const Network& network_;
  bool has_several_;
  std::vector<bool> is_worker_;  // by machine
  std::vector<bool> is_used_;
  std::vector<double> root_shares_;
  std::vector<std::optional<VertexId>> frame_;            // a switch
  std::map<std::pair<VertexId, VertexId>, double> up_;    // by (child, parent): share
  std::map<std::pair<VertexId, VertexId>, double> down_;  // by (parent, child): share
};

}  // namespace

std::string draw_trees(const Network& network, std::span<const VertexId> workers,
                       std::span<const Tree> trees, const std::string& title) {
  return Drawing(network, workers, trees).text(title);
}

}  // namespace tally::plan
