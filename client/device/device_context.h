// What operations of one CUDA context share: streams for copies, and the words and events of
// operations, which are used again and again. One thread at a time. Enqueued work may use an object
// that has retired operations, which must then never be destroyed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "gpu_bridge/stream/ordered_operation.h"

namespace tally::client {

class DeviceContext {
 public:
  // Operations that are outstanding or belong to graphs.
  static constexpr std::uint32_t kMostOperations = 256;

  static Result<std::unique_ptr<DeviceContext>> make(const cuda::Driver& driver,
                                                     cuda::Context context);

  cuda::Context handle() const { return handle_; }
  const gpu::CopyStreams& streams() const { return streams_; }
  // kNoCredit when kMostOperations are in use.
  Result<std::unique_ptr<gpu::OrderedOperation>> take();
  void give_back(std::unique_ptr<gpu::OrderedOperation> operation) {
    free_.push_back(std::move(operation));
  }
  // Keeps an operation whose words streams may still use.
  void retire(std::unique_ptr<gpu::OrderedOperation> operation) {
    retired_.push_back(std::move(operation));
  }
  bool has_retired() const { return !retired_.empty(); }
  // The error of the context, after which its streams do no more work. Costs a call of the driver.
  Outcome alive() const;

 private:
  DeviceContext(const cuda::Driver& driver, cuda::Context handle)
      : driver_(driver), handle_(handle) {}

  const cuda::Driver& driver_;
  cuda::Context handle_;
  std::unique_ptr<gpu::WordPool> words_;
  std::uint32_t used_words_ = 0;
  bool device_writes_ = true;
  std::vector<std::unique_ptr<gpu::OrderedOperation>> free_;
  std::vector<std::unique_ptr<gpu::OrderedOperation>> retired_;
  gpu::CopyStreams streams_;
};

}  // namespace tally::client
