// A collective as a graph: transfers between machines, and for each the transfers that must have
// come before it is sent. Rings and recursive halving are such graphs. A worker sends nothing
// before its own gradient is ready.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "control/plan/model/network.h"

namespace tally::simulator {

struct Transfer {
  plan::VertexId from = 0;
  plan::VertexId to = 0;  // equal to `from`: no bytes move; it only waits
  std::uint32_t bytes = 0;
  std::uint32_t age = 0;  // lower is older
  bool sums = false;      // the machine at its end adds the bytes up
};

struct Transfers {
  std::vector<Transfer> list;
  // (first, then): `then` is sent when `first` has come. Indices in `list`.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> order;
  std::uint64_t bytes = 0;  // of the operation

  std::uint32_t add(const Transfer& transfer) {
    list.push_back(transfer);
    return static_cast<std::uint32_t>(list.size() - 1);
  }
  void after(std::uint32_t first, std::uint32_t then) { order.emplace_back(first, then); }
};

}  // namespace tally::simulator
