// What a test orders and what it reads: failures of calls, misuse, counters. Guarded by
// Machine::mutex.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/cuda/cuda_process.h"

namespace tally::test::cuda {

struct Ledger {
  Counters counters;
  std::vector<std::string> misuses;
  // By function: the calls that fail, by their numbers among all calls.
  std::map<std::string, std::map<std::uint64_t, Code>> faults;

  // Counts a call. Returns the code that the test has ordered for it.
  std::optional<Code> count(const char* function) {
    const std::uint64_t number = ++counters.calls[function];
    const auto ordered = faults.find(function);
    if (ordered == faults.end()) return std::nullopt;
    const auto due = ordered->second.find(number);
    if (due == ordered->second.end()) return std::nullopt;
    return due->second;
  }
};

// "0x7f12".
std::string text_of(std::uint64_t address);
std::string text_of(const void* handle);

}  // namespace tally::test::cuda
