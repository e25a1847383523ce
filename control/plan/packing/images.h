// From trees that stand for all places that they could have to trees at certain places.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "control/plan/model/plan.h"
#include "control/plan/packing/pricing.h"
#include "control/plan/packing/problem.h"

namespace tally::plan {

class Images {
 public:
  // `problem` has the network's symmetry, and must outlive this object.
  explicit Images(const Problem& problem);

  // Returns the tree at other places of the same kinds. Within a set, the rack with the most bytes
  // goes where `dear` is least, and so on. Then within each group the machine with the most bytes
  // does. dear: by passage, in seconds or as a price. Ties: by index.
  Tree move(const Tree& tree, const std::vector<double>& dear) const;

  // Returns trees, at most `count` of each, that divide the bytes of the given trees evenly over
  // their places: each goes where the trees before it left the fewest bytes. Equal trees are left
  // out. O(count x machines x log machines) for each tree.
  std::vector<Tree> spread(std::span<const Tree> trees, std::span<const double> shares,
                           std::size_t count) const;

 private:
  // By passage, in seconds per byte of the tree.
  std::vector<double> seconds_of(const Tree& tree) const;
  // How busy or dear a rack is: the links of its switch to others, and its helpers.
  double of_rack(std::size_t rack, const std::vector<double>& values) const;
  double of_machine(VertexId id, const std::vector<double>& values) const;
  // The real rack for each rack of the tree.
  std::vector<std::size_t> place_racks(const std::vector<double>& seconds,
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
