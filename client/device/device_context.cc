#include "client/device/device_context.h"

#include <fmt/format.h>

#include <utility>

namespace tally::client {

Result<std::unique_ptr<DeviceContext>> DeviceContext::make(const cuda::Driver& driver,
                                                           cuda::Context context) {
  std::unique_ptr<DeviceContext> made(new DeviceContext(driver, context));
  auto streams = gpu::CopyStreams::make(driver, context);
  if (!streams) return streams.error();
  made->streams_ = std::move(streams).value();
  auto words = gpu::WordPool::make(driver, context, kMostOperations);
  if (!words) return words.error();
  made->words_ = std::move(words).value();
  made->device_writes_ = made->words_->device_writes(made->streams_.up.get());
  return made;
}

Result<std::unique_ptr<gpu::OrderedOperation>> DeviceContext::take() {
  if (!free_.empty()) {
    auto operation = std::move(free_.back());
    free_.pop_back();
    return operation;
  }
  if (used_words_ == kMostOperations) {
    return Error{Status::kNoCredit,
                 fmt::format("{} operations on memory of this device are outstanding or belong to "
                             "CUDA graphs: take completions first",
                             kMostOperations)};
  }
  auto made = gpu::OrderedOperation::make(driver_, handle_, *words_, used_words_, device_writes_);
  if (made) ++used_words_;
  return made;
}

Outcome DeviceContext::alive() const {
  const cuda::CurrentContext current(driver_, handle_);
  const cuda::Code code = driver_.stream_query(streams_.down.get());
  if (code == cuda::Code::kNotReady) return Unit{};
  return cuda::outcome(driver_, "the device has failed: cuStreamQuery", code);
}

}  // namespace tally::client
