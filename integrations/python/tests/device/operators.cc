// The operators of the device.
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "integrations/python/tests/device/device.h"
#include "tests/support/cuda/cuda_process.h"

namespace tally::torch_device {
namespace {

// Where a tensor's elements are, without its memory's owner: streams order the use of memory.
struct Layout {
  void* data;
  std::vector<std::int64_t> sizes, strides;
  at::ScalarType type;

  explicit Layout(const at::Tensor& tensor)
      : data(tensor.data_ptr()),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        type(tensor.scalar_type()) {}
  // The same elements for the CPU. Only kernels may use it.
  at::Tensor on_host() const {
    std::byte* const view = test::cuda::host_view(reinterpret_cast<cuda::Pointer>(data));
    return at::from_blob(view, sizes, strides, at::TensorOptions(type));
  }
};

void enqueue(std::function<void()> kernel) {
  driver();  // makes the context current
  check("a kernel", test::cuda::launch(native(current_stream()), [kernel = std::move(kernel)] {
          const at::NoGradGuard no_gradient;
          kernel();
        }));
}

void wait_for_stream() {
  check("cuStreamSynchronize", driver().stream_synchronize(native(current_stream())));
}

// The bytes from the first to the last element.
std::size_t span_of(const at::Tensor& tensor) {
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return static_cast<std::size_t>(last + 1) * tensor.itemsize();
}

// A tensor of the CPU with the layout and the elements of a tensor of the device.
at::Tensor download(const at::Tensor& from) {
  const std::size_t bytes = span_of(from);
  const at::Tensor memory = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
  check("cuMemcpyDtoHAsync",
        driver().memcpy_dtoh_async(memory.data_ptr(),
                                   reinterpret_cast<cuda::Pointer>(from.data_ptr()), bytes,
                                   native(current_stream())));
  wait_for_stream();
  return at::from_blob(
      memory.data_ptr(), from.sizes(), from.strides(), [memory](void*) {},
      from.options().device(at::kCPU));
}

void upload(const at::Tensor& from, const at::Tensor& to) {
  const at::Tensor same =
      to.is_contiguous() ? at::empty(to.sizes(), to.options().device(at::kCPU)) : download(to);
  same.copy_(from);
  check("cuMemcpyHtoDAsync",
        driver().memcpy_htod_async(reinterpret_cast<cuda::Pointer>(to.data_ptr()), same.data_ptr(),
                                   span_of(same), native(current_stream())));
  wait_for_stream();
}

void copy_on_device(const at::Tensor& from, const at::Tensor& to) {
  if (from.scalar_type() == to.scalar_type() && from.is_contiguous() && to.is_contiguous()) {
    check("cuMemcpyDtoDAsync",
          driver().memcpy_dtod_async(reinterpret_cast<cuda::Pointer>(to.data_ptr()),
                                     reinterpret_cast<cuda::Pointer>(from.data_ptr()),
                                     from.nbytes(), native(current_stream())));
    return;
  }
  enqueue([from = Layout(from), to = Layout(to)] { to.on_host().copy_(from.on_host()); });
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool) {
  if (self.numel() == 0) return to;
  const at::Tensor from = self.sizes() == to.sizes() ? self : self.expand(to.sizes());
  if (from.is_cpu()) {
    upload(from, to);
  } else if (to.is_cpu()) {
    to.copy_(download(from));
  } else {
    copy_on_device(from, to);
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  if (self.sizes() != to.sizes()) to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}

void resize_storage(const c10::Storage& storage, std::size_t bytes) {
  c10::DataPtr fresh = allocator().allocate(bytes);
  const std::size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) allocator().copy_data(fresh.get(), storage.data(), kept);
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(fresh));
  storage.unsafeGetStorageImpl()->set_nbytes(bytes);
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef size,
                         std::optional<at::MemoryFormat>) {
  std::int64_t elements = 1;
  for (const std::int64_t one : size) elements *= one;
  const auto end = static_cast<std::size_t>(self.storage_offset() + elements) * self.itemsize();
  if (elements > 0 && end > self.storage().nbytes()) resize_storage(self.storage(), end);
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, std::int64_t offset,
                        c10::IntArrayRef size, c10::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(storage), offset, size, stride);
}
at::Tensor& set_whole_storage(at::Tensor& self, at::Storage storage) {
  const auto elements = static_cast<std::int64_t>(storage.nbytes() / self.itemsize());
  return set_storage(self, std::move(storage), 0, {elements}, {});
}
at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(),
                     source.strides());
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  return download(self).item();
}

at::Tensor& fill(at::Tensor& self, const at::Scalar& value) {
  if (self.numel() > 0) {
    enqueue([to = Layout(self), value] { to.on_host().fill_(value); });
  }
  return self;
}
at::Tensor& zero(at::Tensor& self) {
  return fill(self, 0);
}

// An operation in place whose other operand is a tensor of the device or a number.
template <typename Function>
at::Tensor& in_place(at::Tensor& self, const at::Tensor& other, Function function) {
  if (self.numel() == 0) return self;
  if (other.is_cpu()) {
    enqueue([to = Layout(self), value = other.item(), function] {
      function(to.on_host(), at::scalar_tensor(value, at::TensorOptions(to.type)));
    });
  } else {
    enqueue([to = Layout(self), from = Layout(other), function] {
      function(to.on_host(), from.on_host());
    });
  }
  return self;
}
at::Tensor& add(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return in_place(self, other,
                  [alpha](const at::Tensor& to, const at::Tensor& from) { to.add_(from, alpha); });
}
at::Tensor& multiply(at::Tensor& self, const at::Tensor& other) {
  return in_place(self, other, [](const at::Tensor& to, const at::Tensor& from) { to.mul_(from); });
}
at::Tensor& divide(at::Tensor& self, const at::Tensor& other) {
  return in_place(self, other, [](const at::Tensor& to, const at::Tensor& from) { to.div_(from); });
}

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("resize_", resize);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("fill_.Scalar", fill);
  m.impl("zero_", zero);
  m.impl("add_.Tensor", add);
  m.impl("mul_.Tensor", multiply);
  m.impl("div_.Tensor", divide);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

}  // namespace
}  // namespace tally::torch_device
