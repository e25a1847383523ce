// Which ranks are GPUs of one host, and so a group of machine groups (gpu_bridge/group). Pure: all
// ranks decide the same by what all have found.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "gpu_bridge/cuda_api/driver.h"
#include "gpu_bridge/group/division.h"

namespace tally::python {

// A short text inside a record that ranks exchange as bytes. Longer ones are cut.
class FixedText {
 public:
  FixedText() = default;
  explicit FixedText(const std::string& text) { text.copy(bytes_.data(), bytes_.size() - 1); }
  std::string text() const;
  bool empty() const { return bytes_.front() == '\0'; }

 private:
  std::array<char, 256> bytes_{};
};

// What a rank has found. Ranks exchange it as bytes.
struct RankFacts {
  FixedText host;  // equal at the ranks of one host alone
  // PCI domain, bus and device of its GPU, by which NCCL distinguishes GPUs.
  std::array<std::int32_t, 3> device{};
  FixedText problem;  // why this rank cannot use machine groups; empty: it can
};

// The host's name, and the number of this start of its kernel.
std::string name_of_host();
// Whether NCCL opens, and which device the context is of.
RankFacts facts_of_rank(const std::string& host, const cuda::Driver& driver, cuda::Context context);

struct MachineLayout {
  // Its GPUs are named by the ranks of the process group.
  gpu::Division division;
  std::size_t group = 0;   // of the calling rank
  std::uint32_t rank = 0;  // of the calling rank, inside the group
};

// An error has the reason why there are no machine groups.
Result<MachineLayout> lay_out(std::span<const RankFacts> by_rank, std::uint32_t own_rank);

}  // namespace tally::python
