// What Python hands in as an array: NumPy arrays and whatever else has the buffer protocol, torch
// tensors and whatever else speaks DLPack (on the CPU). Never copied, never converted.
#pragma once

#include <pybind11/pybind11.h>
#include <tally/tally.h>

#include <cstdint>

namespace tally::python {

struct Array {
  void* data = nullptr;
  std::uint64_t count = 0;  // elements
  tally_type type = TALLY_F32;
  bool writable = true;
  pybind11::object owner;  // keeps the memory

  std::uint64_t bytes() const;
};

// Throws Failure where it is not contiguous, of no known type or not in this machine's memory;
// `name` names it in the message. Needs the GIL.
Array array_of(const pybind11::object& object, const char* name);

}  // namespace tally::python
