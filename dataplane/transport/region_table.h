// A hash table of a session's regions, by region number. A peer chooses the numbers, so the memory
// of the table must not depend on their values: it has room for at most eight times as many regions
// as there are, and for four at least once it held one. A lookup reads two buckets of four entries,
// whatever numbers there are, and allocates nothing.
//
// The table uses cuckoo hashing. Two multipliers give the two buckets of a number. They are random
// and no peer knows them, so a peer cannot choose numbers that collide. When numbers collide by
// chance, the table moves one of them to its other bucket. When such moves do not end, the table is
// rebuilt with other multipliers.
//
// One thread. set() throws std::bad_alloc when there is no memory; erase() never throws.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/random_number.h"

namespace tally::transport {

template <typename Value>
class RegionTable {
  static_assert(std::is_trivially_copyable_v<Value>, "entries are copied from place to place");

 public:
  // Null when there is no such region. The pointer is valid until the next set() or erase().
  const Value* find(std::uint32_t number) const {
    const std::size_t at = index_of(number);
    return at == kNowhere ? nullptr : &values_[at];
  }
  Value* find(std::uint32_t number) {
    return const_cast<Value*>(std::as_const(*this).find(number));
  }

  // Adds a region, or replaces its value. When memory runs out (std::bad_alloc), the table stays as
  // it was. Precondition: the number is not 0; 0 means a free entry.
  void set(std::uint32_t number, const Value& value) {
    if (Value* known = find(number)) {
      *known = value;
      return;
    }
    Entry homeless{number, value};
    if (!numbers_.empty() && (take_free(homeless, begin_of(multipliers_[0], number)) ||
                              take_free(homeless, begin_of(multipliers_[1], number)))) {
      ++size_;
      return;
    }
    std::vector<Entry> all = entries();
    all.push_back(homeless);
    if (numbers_.empty() || !settle(homeless)) *this = made_of(all, numbers_.size() / kWays);
    size_ = all.size();
  }

  // Does nothing when there is no such region. Makes the table smaller when it is less than an
  // eighth full.
  void erase(std::uint32_t number) {
    const std::size_t at = index_of(number);
    if (at == kNowhere) return;
    numbers_[at] = kNone;
    --size_;
    if (8 * size_ >= numbers_.size() || numbers_.size() == kWays) return;
    try {
      *this = made_of(entries(), numbers_.size() / kWays / 2);
    } catch (const std::bad_alloc&) {  // the table keeps its size
    }
  }

  std::size_t size() const { return size_; }
  // Bytes of memory that the table uses on the heap.
  std::size_t bytes() const {
    return numbers_.capacity() * sizeof(std::uint32_t) + values_.capacity() * sizeof(Value);
  }

 private:
  static constexpr std::uint32_t kNone = 0;
  static constexpr std::size_t kNowhere = SIZE_MAX;
  static constexpr std::size_t kWays = 4;        // entries of a bucket
  static constexpr std::size_t kMostMoves = 64;  // of one insertion; then the table is rebuilt

  struct Entry {
    std::uint32_t number = kNone;
    Value value{};
  };

  // Index of the first entry of a number's bucket for this multiplier. The uppermost bits of the
  // product depend on all bits of both factors.
  std::size_t begin_of(std::uint64_t multiplier, std::uint32_t number) const {
    return ((number * multiplier) >> 1 >> shift_) * kWays;
  }

  std::size_t index_of(std::uint32_t number) const {
    if (number == kNone || numbers_.empty()) return kNowhere;
    for (const std::uint64_t multiplier : multipliers_) {
      const std::size_t begin = begin_of(multiplier, number);
      for (std::size_t at = begin; at < begin + kWays; ++at) {
        if (numbers_[at] == number) return at;
      }
    }
    return kNowhere;
  }

  // Puts the entry into the bucket that starts at begin. False when the bucket is full.
  bool take_free(const Entry& entry, std::size_t begin) {
    for (std::size_t at = begin; at < begin + kWays; ++at) {
      if (numbers_[at] != kNone) continue;
      numbers_[at] = entry.number;
      values_[at] = entry.value;
      return true;
    }
    return false;
  }

  // Inserts the entry and moves others for it. After kMostMoves moves it undoes them and returns
  // false.
  bool settle(Entry homeless) {
    std::array<std::size_t, kMostMoves> path;
    std::size_t from = kNowhere;
    for (std::size_t moves = 0; moves < kMostMoves; ++moves) {
      const std::array<std::size_t, 2> begins{begin_of(multipliers_[0], homeless.number),
                                              begin_of(multipliers_[1], homeless.number)};
      if (take_free(homeless, begins[0]) || take_free(homeless, begins[1])) return true;
      from = begins[0] == from ? begins[1] : begins[0];  // not the bucket that it was moved out of
      path[moves] = from + moves % kWays;
      exchange(homeless, path[moves]);
    }
    for (std::size_t moves = kMostMoves; moves-- > 0;) exchange(homeless, path[moves]);
    return false;
  }
  void exchange(Entry& entry, std::size_t at) {
    std::swap(entry.number, numbers_[at]);
    std::swap(entry.value, values_[at]);
  }

  std::vector<Entry> entries() const {
    std::vector<Entry> all;
    for (std::size_t at = 0; at < numbers_.size(); ++at) {
      if (numbers_[at] != kNone) all.push_back({numbers_[at], values_[at]});
    }
    return all;
  }

  // Makes a table of these entries. places: number of buckets, a power of two or 0; the table gets
  // more when the entries need them.
  static RegionTable made_of(const std::vector<Entry>& all, std::size_t places) {
    RegionTable made;
    places = std::max<std::size_t>(1, places);
    do {
      if (2 * all.size() > places * kWays) places *= 2;
    } while (!made.make(all, places));
    made.size_ = all.size();
    return made;
  }

  // Fills this table with new multipliers. False when some entry has found no bucket. places:
  // number of buckets, a power of two.
  bool make(const std::vector<Entry>& all, std::size_t places) {
    numbers_ = std::vector<std::uint32_t>(places * kWays, kNone);
    values_ = std::vector<Value>(places * kWays);
    shift_ = 63 - std::countr_zero(places);
    for (std::uint64_t& multiplier : multipliers_) multiplier = random_number() | 1;
    return std::all_of(all.begin(), all.end(),
                       [this](const Entry& entry) { return settle(entry); });
  }

  std::array<std::uint64_t, 2> multipliers_{1, 1};
  int shift_ = 63;  // 63 minus the binary logarithm of the number of buckets
  std::size_t size_ = 0;
  std::vector<std::uint32_t> numbers_;  // kWays for each bucket; kNone means a free entry
  std::vector<Value> values_;           // likewise
};

}  // namespace tally::transport
