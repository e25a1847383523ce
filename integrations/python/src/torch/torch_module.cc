// tally.torch._torch: the communicator of a group of ranks, and the functions that torch calls on
// it.
#include <pybind11/pybind11.h>
#include <torch/extension.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <map>
#include <utility>

#include "integrations/python/src/bindings.h"
#include "integrations/python/src/shared_pool.h"
#include "integrations/python/src/torch/allocator.h"
#include "integrations/python/src/torch/bucket_reducer.h"
#include "integrations/python/src/torch/device_reducer.h"
#include "integrations/python/src/torch/group.h"

namespace py = pybind11;

namespace tally::python {
namespace {

// A tensor as a Python object. torch's own class for that needs functions that libtorch_python does
// not export.
class TensorObject final : public c10::ivalue::PyObjectHolder {
 public:
  // The caller must hold the GIL.
  explicit TensorObject(const at::Tensor& tensor) : tensor_(tensor), object_(py::cast(tensor)) {}
  ~TensorObject() override {
    const py::gil_scoped_acquire gil;
    object_ = {};
  }

  PyObject* getPyObject() override { return object_.ptr(); }
  c10::InferredType tryToInferType() override { return c10::InferredType(c10::TensorType::get()); }
  c10::IValue toIValue(const c10::TypePtr&, std::optional<std::int32_t>) override {
    return tensor_;
  }
  std::string toStr() override { return tensor_.toString(); }
  std::vector<at::Tensor> extractTensors() override { return {tensor_}; }

 private:
  at::Tensor tensor_;
  py::object object_;
};

// DistributedDataParallel wants the result as a Python object.
c10::IValue as_object(const at::Tensor& tensor) {
  return c10::static_intrusive_pointer_cast<c10::ivalue::PyObjectHolder>(
      c10::make_intrusive<TensorObject>(tensor));
}

WorkPtr average(BucketReducer& reducer, std::uint32_t bucket, const at::Tensor& in,
                const at::Tensor& out, bool stats, bool minimum) {
  const c10::IValue value = as_object(out);
  const py::gil_scoped_release nogil;
  return c10d::Work::create_from_future(reducer.average(bucket, in, out, value,
                                                        c10::PyObjectType::get(), stats,
                                                        minimum ? TALLY_MIN : TALLY_AVERAGE));
}

WorkPtr average_on_device(DeviceReducer& reducer, std::uint32_t index, const at::Tensor& bucket,
                          const std::optional<at::ScalarType>& wire, bool stats) {
  c10::IValue value = as_object(bucket);
  const py::gil_scoped_release nogil;
  return reducer.average(index, bucket, wire, stats, std::move(value), c10::PyObjectType::get());
}

void bind_communicator(py::module_& module) {
  py::class_<Communicator, std::shared_ptr<Communicator>>(module, "Communicator")
      .def(py::init([](const std::string& address, const std::string& job, const std::string& token,
                       std::uint32_t rank, std::uint32_t ranks, double connect_timeout,
                       double deadline, bool machine_groups) {
             const CommunicatorOptions options{.address = address,
                                               .job = job,
                                               .token = token,
                                               .rank = rank,
                                               .ranks = ranks,
                                               .connect_timeout_ms = milliseconds(connect_timeout),
                                               .deadline_ms = milliseconds(deadline),
                                               .checksums = {},
                                               .machine_groups = machine_groups};
             const py::gil_scoped_release nogil;
             return connect(options);
           }),
           py::kw_only(), py::arg("address"), py::arg("job"), py::arg("token") = "",
           py::arg("rank"), py::arg("ranks"), py::arg("connect_timeout") = 0.0,
           py::arg("deadline") = 0.0, py::arg("machine_groups") = false)
      .def_property_readonly("address", &Communicator::address)
      .def_property_readonly("rank", &Communicator::rank)
      .def_property_readonly("ranks", &Communicator::ranks)
      .def_property_readonly("closed", &Communicator::closed)
      .def_property_readonly("contributors", &Communicator::contributors)
      .def_property_readonly("copied_bytes", [](const Communicator& c) { return c.copied_bytes(); })
      .def("close", &Communicator::close, py::call_guard<py::gil_scoped_release>());
}

void bind_reducer(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<BucketReducer, std::shared_ptr<BucketReducer>>(module, "BucketReducer")
      .def(py::init<std::shared_ptr<Communicator>>(), py::arg("communicator"))
      .def("average", &average, py::arg("bucket"), py::arg("input"), py::arg("output"),
           py::arg("stats"), py::arg("minimum") = false)
      .def("presence",
           [](const BucketReducer& reducer) {
             std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> found;
             for (const auto& [bucket, one] : reducer.presence()) {
               found[bucket] = {one.contributors, one.round};
             }
             return found;
           })
      .def("wait_until_stranded", &BucketReducer::wait_until_stranded, Release())
      .def("resume", &BucketReducer::resume, py::arg("communicator"), Release())
      .def(
          "give_up",
          [](BucketReducer& reducer, const std::string& why) {
            reducer.give_up(Failure(TALLY_NODE_LOST, why));
          },
          py::arg("why"), Release())
      .def("close", &BucketReducer::close, Release())
      .def("statistics", [](const BucketReducer& reducer) {
        const auto all = reducer.statistics();
        return std::pair(all.sum_of_squares, all.nonfinite);
      });
}

void bind_device_reducer(py::module_& module) {
  py::class_<DeviceReducer, std::shared_ptr<DeviceReducer>>(module, "DeviceReducer")
      .def(py::init([](const std::shared_ptr<Communicator>& communicator, double deadline) {
             return std::make_shared<DeviceReducer>(
                 communicator, std::chrono::milliseconds(milliseconds(deadline)));
           }),
           py::arg("communicator"), py::arg("deadline"))
      .def("average", &average_on_device, py::arg("index"), py::arg("bucket"), py::arg("wire"),
           py::arg("stats"))
      .def("statistics",
           [](const DeviceReducer& reducer) {
             const py::gil_scoped_release nogil;
             const auto all = reducer.statistics();
             return std::pair(all.sum_of_squares, all.nonfinite);
           })
      .def_property_readonly("copied_bytes", &DeviceReducer::copied_bytes);
}

}  // namespace
}  // namespace tally::python

PYBIND11_MODULE(_torch, module) {
  using namespace tally::python;
  module.doc() = "The native half of tally.torch.";
  communicators().close_at_exit();
  // For all modules, because a failure may appear in one of torch's own functions.
  py::register_exception_translator(translate);
  py::module_::import("torch");
  share_pool_of_core();
  bind_communicator(module);
  bind_reducer(module);
  bind_device_reducer(module);
  bind_group(module);
  module.def("install_allocator", &install_allocator);
  module.def(
      "is_shared",
      [](const at::Tensor& tensor) {
        return SharedPool::instance().find(tensor.data_ptr()).has_value();
      },
      py::arg("tensor"));
  module.def("pool_usage", [] {
    const auto usage = SharedPool::instance().usage();
    return py::dict(py::arg("segments") = usage.segments, py::arg("bytes") = usage.bytes,
                    py::arg("free_bytes") = usage.free_bytes);
  });
}
