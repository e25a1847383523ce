// The client library as C++ objects. A call that fails throws a Failure with the library's message.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/system/fd.h"
#include "client/include/tally/tally.h"
#include "perf/measure/device.h"
#include "perf/options/options.h"

namespace tally::perf {

struct Failure : std::runtime_error {
  Failure(tally_status s, const std::string& message) : std::runtime_error(message), status(s) {}
  tally_status status;
};

// Memory that is registered with the session. The session owns it.
struct Arena {
  tally_region* region = nullptr;
  std::byte* data = nullptr;  // with Memory::kCuda a mirror of the device's memory
  std::uint64_t bytes = 0;
  cuda::Pointer device = 0;  // of Memory::kCuda
};

class Session {
 public:
  // `connect_s` is the time in seconds to wait for a node that is starting. The library's log lines
  // go to `log`, with `log_context`, which must outlive the session. `options` is used only by the
  // constructor.
  Session(const Options& options, double connect_s, tally_log_fn log, void* log_context);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const tally_session_info& info() const { return info_; }

  // Copy the first `bytes` between the mirror and the device; nothing for other memory.
  void to_device(const Arena& arena, std::uint64_t bytes) const;
  void from_device(const Arena& arena, std::uint64_t bytes) const;
  // The stream that orders operations on memory of the device; null when there is none.
  void* stream() const;

  // The memory lives as long as the session.
  Arena allocate(Memory memory, std::uint64_t bytes);

  // False when there is no credit; the caller must take a completion first.
  bool post(const tally_operation& operation);

  // Waits for one completion and takes it. Throws when the operation failed.
  tally_completion wait();

  void barrier();
  // Returns rank 0's value at every rank.
  std::uint64_t agree(std::uint64_t value);

 private:
  [[noreturn]] void fail(tally_status status, const char* doing) const;
  Arena map_and_register(Memory memory, std::uint64_t bytes);
  Arena allocate_on_device(std::uint64_t bytes);

  std::vector<Mapping> mappings_;  // of the regions; unmapped after the session is closed
  std::vector<UniqueFd> files_;
  std::uint32_t rank_ = 0;
  std::unique_ptr<Device> device_;  // made with the first memory on it
  tally_session* session_ = nullptr;
  tally_session_info info_{};
  std::uint32_t timeout_ms_ = 0;
  Arena agreed_;
};

}  // namespace tally::perf
