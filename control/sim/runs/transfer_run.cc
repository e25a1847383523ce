#include "control/sim/runs/transfer_run.h"

#include <numeric>

namespace tally::simulator {

TransferRun::TransferRun(Fabric& fabric, Passages& passages, const Transfers& transfers,
                         const ReadyTimes& ready)
    : fabric_(fabric),
      transfers_(transfers),
      waits_for_(transfers.list.size()),
      first_(transfers.list.size() + 1),
      then_(transfers.order.size()),
      ready_(ready),
      held_(ready.size()),
      left_(transfers.list.size()) {
  ways_.reserve(transfers.list.size());
  for (const Transfer& one : transfers.list) {
    ways_.push_back(one.from == one.to ? kNone : passages.way(one.from, one.to, one.sums));
  }
  for (const auto& [first, then] : transfers.order) {
    ++first_[first + 1];
    ++waits_for_[then];
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  for (const auto& [first, then] : transfers.order) then_[next[first]++] = then;
}

void TransferRun::start() {
  for (std::uint32_t worker = 0; worker < ready_.size(); ++worker) {
    if (ready_[worker] > fabric_.now()) fabric_.at(ready_[worker], worker);
  }
  // Those that wait for others are sent when these have come.
  std::vector<std::uint32_t> free;
  for (std::uint32_t i = 0; i < waits_for_.size(); ++i) {
    if (waits_for_[i] == 0) free.push_back(i);
  }
  for (const std::uint32_t transfer : free) send(transfer);
}

void TransferRun::timer(std::uint32_t worker) {
  ready_[worker] = 0;
  std::vector<std::uint32_t> held;
  held.swap(held_[worker]);
  for (const std::uint32_t transfer : held) send(transfer);
}

void TransferRun::send(std::uint32_t number) {
  const Transfer& one = transfers_.list[number];
  if (ready_[one.from] > fabric_.now()) {
    held_[one.from].push_back(number);
  } else if (ways_[number] == kNone) {
    came(number);
  } else {
    fabric_.send({ways_[number], one.bytes, one.age, number, 0});
  }
}

void TransferRun::came(std::uint32_t number) {
  --left_;
  for (std::uint32_t i = first_[number]; i < first_[number + 1]; ++i) {
    if (--waits_for_[then_[i]] == 0) send(then_[i]);
  }
}

}  // namespace tally::simulator
