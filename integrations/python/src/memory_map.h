// Maps an address to its registered region. When no region has the address, the operation copies
// the bytes through a buffer of the library (a "bounce"). So every address works, and the node uses
// registered memory in place.
#pragma once

#include <tally/tally.h>

#include <cstdint>
#include <map>
#include <vector>

namespace tally::python {

// A buffer of the library that replaces the caller's memory during an operation.
struct Bounce {
  std::byte* data = nullptr;  // null: the node uses the caller's memory in place
  tally_region* region = nullptr;
  std::size_t room = 0;
};

// One thread at a time uses an object of this class, as it does the session. Functions throw
// Failure.
class MemoryMap {
 public:
  explicit MemoryMap(tally_session* session) : session_(session) {}

  void adopt(void* data, std::size_t bytes);
  // Returns false when no region was registered at this address.
  bool forget(void* data);

  void add_device_memory(void* data, std::size_t bytes);
  // Returns the place of memory that was added before.
  tally_buffer registered(const void* data, std::size_t bytes) const;

  // Returns the place of [data, data + bytes) for the node. Registers memory of the SharedPool on
  // its first use. Makes `bounce` non-null when the caller must copy the bytes.
  tally_buffer place(const void* data, std::size_t bytes, Bounce& bounce);
  void give_back(Bounce& bounce);
  void count_copy(std::size_t bytes);
  // Returns the bytes copied so far, by bounces and by the library. 0 when the node uses all memory
  // in place.
  std::uint64_t copied_bytes() const;

 private:
  struct Known {
    std::size_t bytes;
    tally_region* region;
  };

  void require(tally_status status) const;
  const Known* find(const std::byte* data, std::size_t bytes, std::uint64_t& offset) const;
  void add(const tally_memory& memory);
  Bounce take_bounce(std::size_t bytes);

  tally_session* session_;
  std::map<const std::byte*, Known> known_;
  std::multimap<std::size_t, Bounce> free_bounces_;  // key: room
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace tally::python
