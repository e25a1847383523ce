// The ceiling of transport fabric over TCP. Each worker has two streams of plain sockets, to this
// process on the node's host and back. All streams run at once, each with the bytes of the
// collective. The buffers here are small, as the node's landing memory is. The buffers of the
// workers have the size of the operation.
#pragma once

#include <memory>
#include <vector>

#include "base/system/fd.h"
#include "perf/ceiling/meter.h"

namespace tally::perf {

class SocketMeter final : public Meter {
 public:
  // Makes every worker connect. Precondition: all workers pause and wait for messages.
  static Result<std::unique_ptr<Meter>> open(const MeterSetting& setting);

  std::string description() const override;
  void begin(const Row& row) override;
  Outcome sample() override;
  double gigabytes_per_second() const override;

 private:
  struct Streams {
    UniqueFd up;  // from the worker
    UniqueFd down;
    std::vector<std::byte> in;
    std::vector<std::byte> out;
  };

  explicit SocketMeter(const MeterSetting& setting);
  Outcome connect(int listener);
  Outcome accept(int listener, std::uint64_t key, Nanos deadline);
  bool take(UniqueFd socket, std::uint64_t key, Nanos deadline);
  bool complete() const;
  Outcome receive_answers();
  Outcome run(std::uint64_t passes, Nanos& time);

  const Options& options_;
  std::vector<net::Channel*> workers_;
  std::vector<Streams> streams_;  // by rank
  const Row* row_ = nullptr;
  std::uint64_t passes_ = 1;
  std::vector<Nanos> times_;  // of one pass each
};

}  // namespace tally::perf
