// The plan for reduce-scatters and all-gathers, the collectives of training with sharded
// parameters. Each worker is the root of the trees for the elements that it owns. Sums go up, and
// results go down.
//
// The problem is that of ForestColl (forestcoll/forest.h), whose trees are few and may have more
// levels than nodes serve. So the trees here come from column generation, which prefers flat ones
// (one_way.h).
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "control/plan/model/plan.h"
#include "control/plan/model/served_limits.h"

namespace tally::plan {

struct RsAgOptions {
  std::uint64_t chunk = 256 << 10;  // bytes
  std::uint64_t epoch = 1;
  bool one_class = false;  // small operations, too, are cut in the order of the trees
  std::uint32_t max_height = kServedHeight;
  std::size_t max_trees = kServedTrees;  // a tree whose results go another way counts as two
};

// Returns a plan of the method "rs-ag-cg" with one domain "all" of these workers, which has passed
// validate(). Its classes have SizeClass::rs_ag and the same trees. The workers have equal shares,
// in the order of their ids, and only workers sum. The certificate has the bound of the collective
// that takes longer (forestcoll::least_seconds()), without a dual.
//
// In networks that differ by direction, results may go another way than sums, if there are no more
// than max_trees / 4 workers. The same arguments give the same plan. Errors: what validate() says
// of the network and the workers; those of least_seconds() and of pack_one_way(); more workers than
// max_trees.
Result<Plan> plan_rs_ag(const Network& network, std::span<const VertexId> workers,
                        const RsAgOptions& options);

}  // namespace tally::plan
