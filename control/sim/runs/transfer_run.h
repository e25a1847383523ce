// Carries out a graph of transfers.
#pragma once

#include <cstdint>
#include <vector>

#include "control/sim/core/run.h"
#include "control/sim/core/transfers.h"

namespace tally::simulator {

class TransferRun final : public Run {
 public:
  // `fabric`, `passages` and `transfers` must outlive this object. Preconditions: each transfer has
  // a route, and `order` has no circle. Memory: 20 bytes for each transfer and 4 for each pair of
  // the order.
  TransferRun(Fabric& fabric, Passages& passages, const Transfers& transfers,
              const ReadyTimes& ready);

  void start() override;
  bool done() const override { return left_ == 0; }
  void delivered(const Message& message) override { came(message.what); }
  void timer(std::uint32_t worker) override;  // its gradient is ready

 private:
  void send(std::uint32_t transfer);
  void came(std::uint32_t transfer);

  Fabric& fabric_;
  const Transfers& transfers_;
  std::vector<std::uint32_t> ways_;
  std::vector<std::uint32_t> waits_for_;  // by transfer: how many
  std::vector<std::uint32_t> first_;      // by transfer: its first one in then_; and the end
  std::vector<std::uint32_t> then_;
  ReadyTimes ready_;
  std::vector<std::vector<std::uint32_t>> held_;  // by worker: transfers that wait for its gradient
  std::size_t left_ = 0;
};

}  // namespace tally::simulator
