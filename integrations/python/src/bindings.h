// What both extension modules need: failures become the one tally.Error.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <memory>
#include <string>
#include <thread>

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
inline std::shared_ptr<Communicator> make_communicator(const CommunicatorOptions& options) {
  return {new Communicator(options), end_communicator};
}

// For Communicator::await: Ctrl-C and other signals.
inline void check_signals() {
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

}  // namespace tally::python
