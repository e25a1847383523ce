// The client library as C++ objects: what fails throws a Failure with the library's words.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "base/fd.h"
#include "client/include/tally/tally.h"
#include "perf/options.h"

namespace tally::perf {

struct Failure : std::runtime_error {
  Failure(tally_status s, const std::string& message) : std::runtime_error(message), status(s) {}
  tally_status status;
};

// Memory that is registered with the session.
struct Arena {
  tally_region* region = nullptr;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

class Session {
 public:
  // Log lines of the library go to `log`, which must outlive the session.
  Session(const Options& options, tally_log_fn log, void* log_context);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const tally_session_info& info() const { return info_; }

  // Lives as long as the session.
  Arena allocate(Memory memory, std::uint64_t bytes);

  // False when there is no credit: take a completion first.
  bool post(const tally_operation& operation);

  // Takes one completion, waiting for it. An operation that failed throws.
  tally_completion wait();

  void barrier();
  // Rank 0's value, at every rank.
  std::uint64_t agree(std::uint64_t value);

 private:
  [[noreturn]] void fail(tally_status status, const char* doing) const;
  Arena map_and_register(Memory memory, std::uint64_t bytes);

  std::vector<Mapping> mappings_;  // behind regions: unmapped after the session is closed
  std::vector<UniqueFd> files_;
  tally_session* session_ = nullptr;
  tally_session_info info_{};
  std::uint32_t patience_ms_ = 0;
  Arena agreed_;
};

}  // namespace tally::perf
