#include "integrations/python/src/torch/device_reducer.h"

#include <algorithm>
#include <utility>

#include "integrations/python/src/bindings.h"

namespace tally::python {

WorkPtr DeviceReducer::average(std::uint32_t index, const at::Tensor& bucket,
                               std::optional<at::ScalarType> wire, bool stats, c10::IValue value,
                               const c10::TypePtr& type) {
  const DeviceCollectives::Bucket how{wire, std::min<std::uint32_t>(index, 255), stats, deadline_};
  auto work = collectives_.average(bucket, how, std::move(value), type);
  if (stats) {
    const std::lock_guard lock(mutex_);
    with_stats_[index] = work;
  }
  return work;
}

BucketReducer::Statistics DeviceReducer::statistics() const {
  std::map<std::uint32_t, c10::intrusive_ptr<DeviceWork>> works;
  {
    const std::lock_guard lock(mutex_);
    works = with_stats_;
  }
  BucketReducer::Statistics all;
  for (const auto& [index, work] : works) {
    communicator_->await([&work = work] { return work->ended(); }, std::nullopt, check_signals);
    if (const auto error = work->exception()) std::rethrow_exception(error);
    all.sum_of_squares += work->sum_of_squares();
    all.nonfinite += work->nonfinite();
  }
  return all;
}

}  // namespace tally::python
