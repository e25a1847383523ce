#include "integrations/python/src/array.h"

#include <dlpack/dlpack.h>

#include <memory>
#include <string>

#include "base/element.h"
#include "integrations/python/src/failure.h"

namespace py = pybind11;

namespace tally::python {
namespace {

[[noreturn]] void refuse(const char* name, const std::string& why) {
  throw Failure(TALLY_INVALID_ARGUMENT, std::string(name) + ": " + why);
}

tally_type type_of(bool is_float, bool is_signed, std::size_t bytes, const char* name,
                   const std::string& called) {
  if (is_float && bytes == 4) return TALLY_F32;
  if (is_float && bytes == 8) return TALLY_F64;
  if (is_float && bytes == 2) return TALLY_F16;
  if (!is_float && is_signed && bytes == 1) return TALLY_I8;
  if (!is_float && !is_signed && bytes == 1) return TALLY_U8;
  if (!is_float && is_signed && bytes == 4) return TALLY_I32;
  if (!is_float && is_signed && bytes == 8) return TALLY_I64;
  refuse(name, "elements of type " + called +
                   "; tally sums float16, bfloat16, float32, float64, int8, uint8, int32, int64");
}

Array from_buffer(const py::object& object, const char* name) {
  Py_buffer view{};
  // The buffer must be contiguous and must have its format. It is writable when the object allows
  // that.
  bool writable = true;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE) !=
      0) {
    PyErr_Clear();
    writable = false;
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
      PyErr_Clear();
      refuse(name, "its elements do not lie one after the other (make it contiguous first)");
    }
  }
  // The array keeps the object, not the view, because NumPy does not resize an array with a view.
  const std::unique_ptr<Py_buffer, decltype(&PyBuffer_Release)> release(&view, PyBuffer_Release);
  std::string format = view.format == nullptr ? "B" : view.format;
  if (format.size() > 1 && (format[0] == '<' || format[0] == '=' || format[0] == '@')) {
    format.erase(0, 1);
  }
  if (format.size() != 1) refuse(name, "elements of format " + format);
  const bool is_float = std::string("efd").find(format) != std::string::npos;
  const bool is_signed = std::string("bilq").find(format) != std::string::npos;
  const bool is_unsigned = std::string("BILQ").find(format) != std::string::npos;
  if (!is_float && !is_signed && !is_unsigned) refuse(name, "elements of format " + format);
  const auto bytes = static_cast<std::size_t>(view.itemsize);
  Array array;
  array.data = view.buf;
  array.count = bytes == 0 ? 0 : static_cast<std::size_t>(view.len) / bytes;
  array.type = type_of(is_float, is_signed, bytes, name, "'" + format + "'");
  array.writable = writable;
  array.owner = object;
  return array;
}

bool contiguous(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (int i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

Array from_dlpack(const py::object& object, const char* name) {
  const py::object source = py::hasattr(object, "detach") ? object.attr("detach")() : object;
  py::capsule capsule = source.attr("__dlpack__")();
  auto* managed = capsule.get_pointer<DLManagedTensor>();
  const DLTensor& tensor = managed->dl_tensor;
  if (tensor.device.device_type != kDLCPU) refuse(name, "it is not in the memory of this machine");
  Array array;
  array.count = 1;
  for (int i = 0; i < tensor.ndim; ++i) array.count *= static_cast<std::uint64_t>(tensor.shape[i]);
  if (array.count > 0 && !contiguous(tensor)) {
    refuse(name, "its elements do not lie one after the other (make it contiguous first)");
  }
  array.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  const std::size_t bytes = tensor.dtype.bits / 8u;
  if (tensor.dtype.code == kDLBfloat && bytes == 2) {
    array.type = TALLY_BF16;
  } else {
    array.type = type_of(tensor.dtype.code == kDLFloat, tensor.dtype.code == kDLInt, bytes, name,
                         std::to_string(tensor.dtype.bits) + " bits, DLPack code " +
                             std::to_string(tensor.dtype.code));
  }
  array.owner = object;  // the capsule's hold on the memory ends with the capsule
  return array;
}

}  // namespace

std::uint64_t Array::bytes() const {
  return count * element_bytes(static_cast<ElementType>(type));
}

Array array_of(const py::object& object, const char* name) {
  if (PyObject_CheckBuffer(object.ptr()) != 0) return from_buffer(object, name);
  if (py::hasattr(object, "__dlpack__")) return from_dlpack(object, name);
  refuse(name, "neither the buffer protocol (NumPy) nor DLPack (torch): " +
                   py::str(py::type::of(object)).cast<std::string>());
}

}  // namespace tally::python
