// What both extension modules need: failures become the one tally.Error.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "integrations/python/src/communicator.h"

namespace tally::python {

// Raised from Python's class, so that both modules raise the same one.
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

// Ends without the GIL: its thread may need it for a last callback. And not on that thread, which
// has to end first: a callback may have been the last to hold it.
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

// All that there are, to be closed before the interpreter goes: a callback that wants the GIL
// afterwards would end the process with an error.
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

// Of this module. Never destroyed.
inline Communicators& communicators() {
  static auto* all = new Communicators;
  return *all;
}

// For Communicator::await: Ctrl-C and other signals.
inline void check_signals() {
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

// Opens a session; without the GIL. Connecting knows nothing of Python's signals, so it has a
// thread of its own, which is left to its timeout when a signal's handler raises.
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
