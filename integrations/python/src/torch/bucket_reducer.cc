#include "integrations/python/src/torch/bucket_reducer.h"

#include <algorithm>

#include "integrations/python/src/torch/tensors.h"

namespace tally::python {

c10::intrusive_ptr<c10::ivalue::Future> BucketReducer::average(std::uint32_t bucket,
                                                               const at::Tensor& in,
                                                               const at::Tensor& out,
                                                               c10::IValue value, c10::TypePtr type,
                                                               bool stats) {
  require_dense(in, "the bucket");
  const auto element = type_of(in.scalar_type());
  if (!element) {
    throw Failure(TALLY_UNSUPPORTED, std::string("a bucket of ") + at::toString(in.scalar_type()));
  }
  auto future = c10::make_intrusive<c10::ivalue::Future>(std::move(type));
  if (in.numel() == 0) {
    future->markCompleted(std::move(value));
    return future;
  }
  Request request;
  request.type = *element;
  request.op = TALLY_AVERAGE;
  request.count = static_cast<std::uint64_t>(in.numel());
  request.in = in.data_ptr();
  request.out = out.data_ptr();
  request.priority = std::min<std::uint32_t>(bucket, 255);
  request.stats = stats;
  request.tag = bucket;
  // The tensors live as long as the node may use them.
  communicator_->post(request, [future, value = std::move(value), in, out, bucket, stats,
                                results = results_](const Outcome& outcome) {
    if (outcome.status != TALLY_OK) {
      future->setErrorIfNeeded(std::make_exception_ptr(outcome.failure()));
      return;
    }
    if (stats) {
      const std::lock_guard lock(results->mutex);
      results->of_bucket[bucket] = {outcome.sum_of_squares, outcome.nonfinite};
    }
    future->markCompleted(value);
  });
  return future;
}

BucketReducer::Statistics BucketReducer::statistics() const {
  const std::lock_guard lock(results_->mutex);
  Statistics all;
  for (const auto& [bucket, one] : results_->of_bucket) {
    all.sum_of_squares += one.sum_of_squares;
    all.nonfinite += one.nonfinite;
  }
  return all;
}

}  // namespace tally::python
