#include "dataplane/transport/onesided/operation_pool.h"

namespace tally::transport::onesided {

Operation& OperationPool::take(Context::Kind kind, Peer peer, std::size_t bytes,
                               std::uint64_t user) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(operations_.size()));
    operations_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Operation& operation = operations_[index];
  operation = Operation{};
  operation.kind = kind;
  operation.peer = peer;
  operation.bytes = bytes;
  operation.user = user;
  operation.index = index;
  return operation;
}

void OperationPool::give_back(Operation& operation) {
  if (operation.memory != nullptr) operation.memory->release(operation.local);
  if (operation.payload != 0) payloads_.release(operation.payload);
  operation.memory = nullptr;
  operation.bytes = 0;
  free_.push_back(operation.index);
}

}  // namespace tally::transport::onesided
