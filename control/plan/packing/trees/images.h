// From trees that stand for all places that they could have to trees at certain places.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "control/plan/model/plan.h"
#include "control/plan/packing/places/problem.h"
#include "control/plan/packing/trees/pricing.h"

namespace tally::plan {

// Whether all racks of a set use their machines alike: the first machine of one where another uses
// its first one. Then a few trees can be even over all of them.
enum class Places { kAlikeInRacks, kAny };

class Images {
 public:
  // `problem` has the network's symmetry, and must outlive this object.
  explicit Images(const Problem& problem);

  // Returns the tree at other places of the same kinds: the busiest racks and machines of the tree
  // go where `dear` is least. dear: by passage, in seconds or as a price. Ties: by index.
  Tree move(const Tree& tree, const std::vector<double>& dear, Places places) const;

  struct Spread {
    std::vector<Tree> trees;
    std::vector<double> shares;
  };
  // Returns about `count` trees that divide the bytes of the given trees nearly evenly over their
  // places: each goes where the trees before it left the fewest bytes. A tree is moved as often as
  // its share demands, and at least once. Equal trees are one. O(count x machines x racks).
  Spread spread(std::span<const Tree> trees, std::span<const double> shares,
                std::size_t count) const;

 private:
  // For each machine of a group, by its place in the group: the place that it goes to.
  using Order = std::vector<std::size_t>;

  // By passage, in seconds per byte of the tree.
  std::vector<double> seconds_of(const Tree& tree) const;
  double sum_of(const std::vector<std::size_t>& passages, const std::vector<double>& values) const;
  // The order of the machines in all groups at one place of a set's racks.
  Order order_in_set(std::size_t set, std::size_t group, const std::vector<double>& seconds,
                     const std::vector<double>& dear) const;
  Order order_in_group(const Group& from, const Group& to, const std::vector<double>& seconds,
                       const std::vector<double>& dear) const;
  // The real rack for each rack of the tree in a set. orders: by group of a rack.
  std::vector<std::size_t> place_racks(std::size_t set, const std::vector<Order>& orders,
                                       const std::vector<double>& seconds,
                                       const std::vector<double>& dear) const;

  const Problem& problem_;
  std::vector<std::vector<std::size_t>> rack_passages_;     // of links between switches
  std::vector<std::vector<std::size_t>> machine_passages_;  // all that a machine has an end of
};

// Prices by moving given trees to the cheapest places. It shows no bound.
class ImagePricing : public Pricing {
 public:
  ImagePricing(const Images& images, std::vector<Tree> trees)
      : images_(images), trees_(std::move(trees)) {}

  Result<Priced> price(const std::vector<double>& prices) override;

 private:
  const Images& images_;
  std::vector<Tree> trees_;
};

}  // namespace tally::plan
