// The driver's description of a caller's stream.
#pragma once

#include "base/result.h"
#include "gpu_bridge/cuda_api/driver.h"

namespace tally::gpu {

// Whether the stream is being captured into a graph. kInvalidArgument when it belongs to another
// context. A null stream is the context's legacy default stream. Any thread.
inline Result<bool> is_capturing(const cuda::Driver& driver, cuda::Context context,
                                 cuda::Stream stream) {
  const cuda::CurrentContext current(driver, context);
  unsigned status = cuda::kCaptureNone;
  auto asked =
      cuda::outcome(driver, "cuStreamIsCapturing", driver.stream_is_capturing(stream, &status));
  cuda::Context of = context;
  if (asked && stream != nullptr) {
    asked = cuda::outcome(driver, "cuStreamGetCtx", driver.stream_get_ctx(stream, &of));
  }
  if (!asked) return asked.error();
  if (of != context) return invalid("the stream belongs to another device than the buffers");
  return status != cuda::kCaptureNone;
}

}  // namespace tally::gpu
