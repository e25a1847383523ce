// DPDK's environment abstraction layer (EAL): one polling thread per shard, and the memory for
// tiles. The memory is on hugepages when the machine has them. Only this unit starts the EAL and
// knows its options. It works as root and as an ordinary user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace tally::engine {

// kAuto uses hugepages when enough of them are free, and ordinary pages otherwise.
enum class Hugepages : std::uint8_t { kAuto, kOn, kOff };

// The EAL numbers its threads 0..127, and the caller's thread is one of them.
inline constexpr std::uint32_t kMaxShards = 127;

struct EalOptions {
  std::uint32_t shards = 1;  // 1..kMaxShards; may exceed the number of cores
  Hugepages hugepages = Hugepages::kAuto;
  std::uint32_t memory_mib = 64;  // reserved at start; all allocate() calls share it
  std::vector<int> cpus{};        // the CPU of each shard; empty: start() assigns them
  // The PCI address of the only device that the EAL may open; empty: it looks for none.
  std::string pci_device{};
  bool verbose = false;  // true: the EAL's log goes to stderr; false: kept for error messages
};

// Owns memory of the EAL and frees it in the destructor. It must not outlive its Eal.
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
  // Starts the EAL. Works once per process: the EAL cannot start again, not even after its cleanup.
  // The shards' threads inherit the caller's signal mask. The caller keeps its CPU affinity.
  // Without EalOptions::cpus, each of two or more shards stays on a CPU of its own when the
  // caller's affinity has enough CPUs. Otherwise the shards float.
  static Result<std::unique_ptr<Eal>> start(const EalOptions& options);

  // Waits for every launched body. The caller must first make endless bodies return.
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  // Runs `body` on the shard's thread. `body` sees all earlier writes of the caller. It must not
  // throw.
  Outcome launch(std::uint32_t shard, std::function<void()> body);

  // Waits for every launched body. The caller then sees their writes.
  void join();

  // Returns memory that is zeroed and faulted in. `align` must be a power of two.
  Result<EalMemory> allocate(std::size_t bytes, std::size_t align) const;

  bool on_hugepages() const { return on_hugepages_; }
  std::uint32_t shards() const { return static_cast<std::uint32_t>(threads_.size()); }

 private:
  struct Thread;

  Eal(const EalOptions& options, bool on_hugepages);
  static int run(void* thread);

  std::vector<std::unique_ptr<Thread>> threads_;
  std::uint32_t memory_mib_;
  bool on_hugepages_;
};

}  // namespace tally::engine
