// Writes on their way to a store that takes them in transactions. Each transaction takes the next
// writes in their order, so what the store has is always a state that existed. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace tally::control {

struct Write {
  std::string key;
  std::optional<std::string> value;  // nullopt: the key is erased
};

class WriteQueue {
 public:
  // The limits of a transaction. A single write may have more bytes.
  WriteQueue(std::size_t most_writes, std::size_t most_bytes)
      : most_writes_(most_writes), most_bytes_(most_bytes) {}

  void add(Write write);
  // How many writes have been added so far.
  std::uint64_t added() const { return added_; }
  bool empty() const { return waiting_.empty(); }

  struct Batch {
    std::vector<Write> writes;  // each key once, with its last value
    std::uint64_t last = 0;     // number of the last write in it, from 1
  };
  // Takes the writes of the next transaction. Precondition: !empty().
  Batch take();

 private:
  const std::size_t most_writes_;
  const std::size_t most_bytes_;
  std::deque<Write> waiting_;
  std::uint64_t added_ = 0;
};

}  // namespace tally::control
