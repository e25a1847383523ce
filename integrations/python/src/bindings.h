// Code that several extension modules need. Every Failure becomes the one class tally.Error.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "integrations/python/src/communicator.h"
#include "integrations/python/src/shared_pool.h"

namespace tally::python {

// Raises tally.Error. The class comes from Python, so all modules raise the same one.
inline void raise(const Failure& failure) {
  namespace py = pybind11;
  const py::object error = py::module_::import("tally._error").attr("Error");
  const py::object culprit =
      failure.culprit == TALLY_NO_RANK ? py::object(py::none()) : py::int_(failure.culprit);
  const py::object instance =
      error(failure.what(), tally_status_name(failure.status), culprit, failure.inputs_gone);
  PyErr_SetObject(error.ptr(), instance.ptr());
}

inline void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const Failure& failure) {
    raise(failure);
  }
}

// Makes this module use the memory of tally._core (SharedPool::use).
inline void share_pool_of_core() {
  namespace py = pybind11;
  SharedPool::use(*py::module_::import("tally._core")
                       .attr("_pool")
                       .cast<py::capsule>()
                       .get_pointer<SharedPool>());
}

// Of seconds, at most a day.
inline std::uint32_t milliseconds(double seconds) {
  return static_cast<std::uint32_t>(std::ceil(std::clamp(1000 * seconds, 0.0, 86'400'000.0)));
}

// Deletes a communicator without the GIL, because its thread may need the GIL for a last callback.
// On the communicator's own thread, another thread deletes it: a callback may have held the last
// reference, and the own thread must end first.
inline void end_communicator(Communicator* communicator) {
  if (communicator->on_own_thread()) {
    std::thread([communicator] { delete communicator; }).detach();
  } else if (PyGILState_Check() != 0) {
    const pybind11::gil_scoped_release nogil;
    delete communicator;
  } else {
    delete communicator;
  }
}

// All communicators of a module. They must be closed before the interpreter ends, because a later
// callback that takes the GIL would end the process with an error.
class Communicators {
 public:
  std::shared_ptr<Communicator> make(const CommunicatorOptions& options) {
    std::shared_ptr<Communicator> made(new Communicator(options), end_communicator);
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& one) { return one.expired(); });
    all_.push_back(made);
    return made;
  }
  void close_at_exit() {
    pybind11::module_::import("atexit").attr("register")(pybind11::cpp_function([this] {
      const pybind11::gil_scoped_release nogil;
      std::vector<std::weak_ptr<Communicator>> all;
      {
        const std::lock_guard lock(mutex_);
        all.swap(all_);
      }
      for (const auto& one : all) {
        if (const auto communicator = one.lock()) communicator->close();
      }
    }));
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<Communicator>> all_;
};

// Returns the instance of this module. It is never destroyed.
inline Communicators& communicators() {
  static auto* all = new Communicators;
  return *all;
}

// Handles Ctrl-C and other signals during Communicator::await().
inline void check_signals() {
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

// Opens a session. The caller must not hold the GIL. The connection code does not check Python's
// signals, so it runs on a thread of its own. When a signal handler raises, that thread continues
// until its timeout.
inline std::shared_ptr<Communicator> connect(const CommunicatorOptions& options) {
  const auto opened = std::make_shared<std::promise<std::shared_ptr<Communicator>>>();
  auto result = opened->get_future();
  std::thread([opened, options] {
    try {
      opened->set_value(communicators().make(options));
    } catch (...) {
      opened->set_exception(std::current_exception());
    }
  }).detach();
  while (result.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    check_signals();
  }
  return result.get();
}

}  // namespace tally::python
