// The memory of a rank's GPU that operations may use, as regions of the sessions of its columns.
#pragma once

#include <cstddef>
#include <list>
#include <vector>

#include "base/result.h"
#include "client/include/tally/tally.h"
#include "gpu_bridge/cuda_api/cuda_abi.h"

namespace tally::gpu {

struct GroupBuffer {
  cuda::Pointer data = 0;
  std::size_t bytes = 0;
  std::vector<tally_region*> regions;  // by column
};

// One thread at a time.
class GroupBuffers {
 public:
  explicit GroupBuffers(std::vector<tally_session*> columns) : columns_(std::move(columns)) {}
  ~GroupBuffers();
  GroupBuffers(const GroupBuffers&) = delete;
  GroupBuffers& operator=(const GroupBuffers&) = delete;

  Outcome add(cuda::Pointer data, std::size_t bytes);
  Outcome remove(cuda::Pointer data);
  // The buffer that has all the bytes, until it is removed; null: none.
  const GroupBuffer* find(cuda::Pointer data, std::size_t bytes) const;

 private:
  Outcome release(GroupBuffer& buffer);

  std::vector<tally_session*> columns_;
  std::list<GroupBuffer> buffers_;  // which stay where they are, because operations point to them
};

}  // namespace tally::gpu
