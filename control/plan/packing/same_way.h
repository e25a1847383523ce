// The network that trees see whose results go back the way that the sums came.
//
// Such a tree carries the same bytes over both directions of each of its edges. So of a link or NIC
// the slower direction alone limits, and the network is the same both ways: its trees are cheap to
// find (two_way_pricing.h), and alike machines can change places.
#pragma once

#include <optional>
#include <span>

#include "control/plan/model/network.h"

namespace tally::plan {

// Returns the network with the slower speed of the two directions for both, and without sums of
// machines that sum as fast as bytes come. A plan of trees with one way takes the same time there.
// Nullopt: the network is already so; or a link has one direction alone, a route back has other
// links than the route there, or a machine sums more slowly. Precondition: the network has passed
// validate(), and the workers are machines of it.
std::optional<Network> slower_directions(const Network& network, std::span<const VertexId> workers);

}  // namespace tally::plan
