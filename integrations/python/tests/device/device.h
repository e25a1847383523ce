// A device of PyTorch for tests: "process", registered as PrivateUse1. Its memory, streams and
// events are those of device 0 of the CUDA of the process (tests/support/cuda). So code for GPUs
// runs under PyTorch without a GPU. Threads that are ranks of their own have a device each
// (use_ordinal()).
//
// Copies between two tensors of the device, and fill_, zero_, add_, mul_ and div_ of dense tensors,
// are enqueued on the current stream. All other operators run on the CPU: they wait for the stream,
// copy to the host, and copy back.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include "gpu_bridge/cuda_api/driver.h"

namespace tally::torch_device {

inline constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
inline const c10::Device kDevice(kType, 0);

// The number in CUDA of the calling thread's device. A thread sets it before it uses the device.
void use_ordinal(int ordinal);
int ordinal();
cuda::Context context_of(int ordinal);
// The driver. The device's primary context is current on the calling thread afterwards.
const cuda::Driver& driver();
// Throws with the name of the call unless the code is kSuccess.
void check(const char* call, cuda::Code code);

inline cuda::Stream native(const c10::Stream& stream) {
  return reinterpret_cast<cuda::Stream>(stream.id());  // the default stream has 0
}
c10::Stream current_stream();

// Keeps freed blocks and gives them to allocations of the same stream. A block that other streams
// have used (record_stream) waits for these.
c10::Allocator& allocator();
void record_stream(const c10::DataPtr& data, const c10::Stream& stream);
// Gives the free blocks back to CUDA.
void empty_cache();

void register_guard();

}  // namespace tally::torch_device
