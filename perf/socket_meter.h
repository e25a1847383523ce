// The ceiling of transport fabric over TCP: a stream of plain sockets from each worker to this
// process, on the node's host, and one back, all at once, with as many bytes in each as the
// collective has. The buffers here are small, as the node's landing memory is; the workers' are
// those of the operation.
#pragma once

#include <memory>
#include <vector>

#include "base/fd.h"
#include "perf/meter.h"

namespace tally::perf {

class SocketMeter final : public Meter {
 public:
  // Has every worker connect. Precondition: all of them stand still and wait for messages.
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
  Outcome hear_all();
  Outcome run(std::uint64_t passes, Nanos& time);

  const Options& options_;
  std::vector<Channel*> workers_;
  std::vector<Streams> streams_;  // by rank
  const Row* row_ = nullptr;
  std::uint64_t passes_ = 1;
  std::vector<Nanos> times_;  // of one pass each
};

}  // namespace tally::perf
