// Arrays from Python: NumPy arrays and other objects with the buffer protocol, torch tensors and
// other objects with DLPack (in CPU memory). This code never copies or converts them.
#pragma once

#include <pybind11/pybind11.h>
#include <tally/tally.h>

#include <cstdint>

namespace tally::python {

struct Array {
  void* data = nullptr;
  std::uint64_t count = 0;  // number of elements
  tally_type type = TALLY_F32;
  bool writable = true;
  pybind11::object owner;  // keeps the memory alive

  std::uint64_t bytes() const;
};

// Throws Failure when the object is not contiguous, has a type that tally does not know, or is not
// in this machine's memory. The message names it `name`. The caller must hold the GIL.
Array array_of(const pybind11::object& object, const char* name);

}  // namespace tally::python
