// Which registered region an address lies in. Memory that lies in none is copied through buffers of
// the library's ("bounced"): right everywhere, in place where it pays.
#pragma once

#include <tally/tally.h>

#include <cstdint>
#include <map>
#include <vector>

namespace tally::python {

// A buffer of the library's that stands in for the caller's memory during an operation.
struct Bounce {
  std::byte* data = nullptr;  // null: the caller's memory is used in place
  tally_region* region = nullptr;
  std::size_t room = 0;
};

// Used by one thread at a time, as its session is. Throws Failure.
class MemoryMap {
 public:
  explicit MemoryMap(tally_session* session) : session_(session) {}

  void adopt(void* data, std::size_t bytes);
  // False when it is not known by this address.
  bool forget(void* data);

  // Where the node finds [data, data + bytes). Memory of the SharedPool is registered when it is
  // first used. `bounce` becomes non-null when it has to be copied.
  tally_buffer place(const void* data, std::size_t bytes, Bounce& bounce);
  void give_back(Bounce& bounce);
  void count_copy(std::size_t bytes);
  // So far, through bounces and by the library: 0 where all memory is used in place.
  std::uint64_t copied_bytes() const;

 private:
  struct Known {
    std::size_t bytes;
    tally_region* region;
  };

  void require(tally_status status) const;
  const Known* find(const std::byte* data, std::size_t bytes, std::uint64_t& offset) const;
  void add(void* data, std::size_t bytes, const tally_memory& memory);
  Bounce take_bounce(std::size_t bytes);

  tally_session* session_;
  std::map<const std::byte*, Known> known_;
  std::multimap<std::size_t, Bounce> free_bounces_;  // by room
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace tally::python
