// Drawings of trees, as text of the language dot (graphviz.org).
//
// Boxes are workers, ellipses are helpers, and diamonds are switches. The machines at a switch are
// in a frame with its name: a rack. Roots have thick red lines. An arrow is the way of sums, from a
// child to its parent, and is the wider the more bytes take it. A dashed blue arrow is the way of a
// result that does not go back the way the sums came. Dotted lines are links: those of switches,
// and those of a machine besides its link to the switch of its frame.
#pragma once

#include <span>
#include <string>

#include "control/plan/model/network.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

// Draws the trees over each other, in one picture. With several trees, arrows have the share of all
// bytes that takes them, and roots have the share of their trees; shares are weights in
// kWeightUnit. Workers of other domains count as helpers. Preconditions: the trees have passed
// validate(), and `workers` are machines of the network.
std::string draw_trees(const Network& network, std::span<const VertexId> workers,
                       std::span<const Tree> trees, const std::string& title);

}  // namespace tally::plan
