#include "integrations/python/src/torch/machines.h"

#include <string>

#include "gpu_bridge/cuda_api/driver.h"
#include "integrations/python/src/bindings.h"
#include "integrations/python/src/machine/set_up.h"

namespace tally::python {
namespace {

// level: the name of a function of Python's loggers.
void log(const char* level, const std::string& text) {
  const pybind11::gil_scoped_acquire gil;
  pybind11::module_::import("tally.torch._connect").attr("logger").attr(level)("%s", text);
}

}  // namespace

MachineReducer* Machines::of(const CommStreams& streams, c10::Device device) {
  if (!communicator_->options().machine_groups) return nullptr;
  const cuda::Context context = streams.context();
  if (is_decided_) {
    if (reducer_ == nullptr || reducer_->context() == context) return reducer_.get();
    throw Failure(TALLY_INVALID_ARGUMENT,
                  "an all-reduce on " + device.str() +
                      ", and the machine groups were made for another device: use one device in "
                      "each process, or unset TALLY_MACHINE_GROUPS");
  }
  auto made = set_up_machines(*communicator_, {.host = name_of_host(),
                                               .driver = cuda::system_driver().value(),
                                               .context = context,
                                               .interrupted = check_signals});
  is_decided_ = true;
  if (made) reducer_ = *made;
  if (communicator_->rank() == 0) {
    if (made) {
      log("info", "tally: large all-reduces on devices go through machine groups");
    } else {
      log("warning", "tally: TALLY_MACHINE_GROUPS is without effect: " + made.error().message);
    }
  }
  return reducer_.get();
}

}  // namespace tally::python
