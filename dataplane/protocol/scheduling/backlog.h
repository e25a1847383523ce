// The bytes to be read and stored for tiles of ready operations that have not started. Operations
// that become ready add to it, and tiles that start or fail take from it. When it is large, results
// bypass the caches. It belongs to the shard's thread.
#pragma once

#include <cstdint>

namespace tally::protocol {

class Backlog {
 public:
  // `stream_bytes`: from this backlog on results bypass the caches.
  explicit Backlog(std::uint64_t stream_bytes) : stream_bytes_(stream_bytes) {}

  void add(std::uint64_t bytes) { bytes_ += bytes; }
  void remove(std::uint64_t bytes) { bytes_ -= bytes; }
  bool empty() const { return bytes_ == 0; }
  // Returns whether results bypass the caches when `more` bytes are added.
  bool streams(std::uint64_t more = 0) const { return bytes_ + more >= stream_bytes_; }

 private:
  std::uint64_t stream_bytes_;
  std::uint64_t bytes_ = 0;
};

}  // namespace tally::protocol
