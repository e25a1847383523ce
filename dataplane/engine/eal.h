// DPDK's environment: one polling thread per shard and the memory for tiles, on hugepages where the
// machine has them. The one place that starts the EAL and knows its options; works as root and as
// an ordinary user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"

namespace tally::engine {

// kAuto takes hugepages when enough of them are free, and ordinary pages else.
enum class Hugepages : std::uint8_t { kAuto, kOn, kOff };

// The EAL numbers its threads 0..127 and the caller's is one of them.
inline constexpr std::uint32_t kMaxShards = 127;

struct EalOptions {
  std::uint32_t shards = 1;  // 1..kMaxShards; may be more than there are cores
  Hugepages hugepages = Hugepages::kAuto;
  std::uint32_t memory_mib = 64;  // set aside at start, for all allocate() together
  std::vector<int> cpus{};        // by shard: where it stays; empty: as start() says
  bool verbose = false;           // the EAL's own log goes to stderr; else it is kept for errors
};

// Memory of the EAL, given back at the end. Must not outlive its Eal.
class EalMemory {
 public:
  EalMemory() = default;
  EalMemory(EalMemory&& other) noexcept;
  EalMemory& operator=(EalMemory&& other) noexcept;
  ~EalMemory();

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class Eal;
  EalMemory(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class Eal {
 public:
  // Once per process: the EAL can not be started again, not even after it was taken down. The
  // shards' threads inherit the caller's signal mask; the caller keeps its CPU affinity. Two shards
  // or more that find a core each among the caller's stay there, one on each; else shards float.
  static Result<std::unique_ptr<Eal>> start(const EalOptions& options);

  // Waits for what was launched, so whoever launched something endless has told it to end.
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  // Runs `body` on the shard's thread. What the caller wrote before is seen by `body`. A body must
  // not throw.
  Outcome launch(std::uint32_t shard, std::function<void()> body);

  // Waits for every body that was launched; what they wrote is seen by the caller.
  void join();

  // Zeroed and faulted in. `align`: a power of two.
  Result<EalMemory> allocate(std::size_t bytes, std::size_t align) const;

  bool on_hugepages() const { return on_hugepages_; }
  std::uint32_t shards() const { return static_cast<std::uint32_t>(slots_.size()); }

 private:
  struct Slot;

  Eal(const EalOptions& options, bool on_hugepages);
  static int run(void* slot);

  std::vector<std::unique_ptr<Slot>> slots_;
  std::uint32_t memory_mib_;
  bool on_hugepages_;
};

}  // namespace tally::engine
