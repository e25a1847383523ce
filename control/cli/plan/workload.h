// Model workloads: the list of a model's tensors, in the order of the forward pass. tally-perf
// measures them, and planners make plans for them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally::control {

struct ModelTensor {
  std::string name;
  std::uint64_t count = 0;  // elements
};

struct Workload {
  std::string model;
  std::vector<ModelTensor> tensors;  // in the order of the forward pass

  std::uint64_t elements() const;
};

// Parses the text of a file in perf/workloads/. An error names what is wrong; one is a sum of
// elements that differs from the file's own "parameters".
Result<Workload> parse_workload(std::string_view json);

// Whether the name is the path of a file: it has a '/' or ends in ".json".
bool is_workload_path(std::string_view name);

// The workload of that name: one of builtin_workloads(), or the path of a file like those in
// perf/workloads/.
Result<Workload> find_workload(const std::string& name);

std::span<const std::string_view> builtin_workloads();

}  // namespace tally::control
