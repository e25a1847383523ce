// tally.jax._jax: the session of XLA programs, and the custom calls.
#include <pybind11/pybind11.h>

#include "integrations/python/src/bindings.h"
#include "integrations/python/src/jax/exchange.h"
#include "integrations/python/src/jax/handlers.h"

namespace py = pybind11;

namespace tally::python {
namespace {

void open(const std::string& address, const std::string& job, const std::string& token,
          std::uint32_t rank, std::uint32_t ranks, double connect_timeout, double deadline) {
  CommunicatorOptions options;
  options.address = address;
  options.job = job;
  options.token = token;
  options.rank = rank;
  options.ranks = ranks;
  options.connect_timeout_ms = milliseconds(connect_timeout);
  options.deadline_ms = milliseconds(deadline);
  const py::gil_scoped_release nogil;
  set_exchange(nullptr);  // the node refuses a second session of this rank
  set_exchange(std::make_shared<Exchange>(connect(options)));
}

void close() {
  const py::gil_scoped_release nogil;
  set_exchange(nullptr);
}

const Communicator& communicator(const std::shared_ptr<Exchange>& exchange) {
  if (exchange) return exchange->communicator();
  throw Failure(TALLY_INVALID_ARGUMENT, "no session: call tally.jax.init() first");
}

py::capsule capsule_of(XLA_FFI_Handler* handler) {
  return py::capsule(reinterpret_cast<void*>(handler));
}

}  // namespace
}  // namespace tally::python

PYBIND11_MODULE(_jax, module) {
  using tally::python::communicator;
  using tally::python::current_exchange;
  module.doc() = "XLA's side of tally.jax.";
  tally::python::share_pool_of_core();
  pybind11::register_local_exception_translator(tally::python::translate);
  module.def("open", tally::python::open, py::kw_only(), py::arg("address"), py::arg("job"),
             py::arg("token"), py::arg("rank"), py::arg("ranks"), py::arg("connect_timeout"),
             py::arg("deadline"));
  module.def("close", tally::python::close);
  module.def("rank", [] { return communicator(current_exchange()).rank(); });
  module.def("ranks", [] { return communicator(current_exchange()).ranks(); });
  module.def("start_handler", [] { return tally::python::capsule_of(tally::python::kStart); });
  module.def("finish_handler", [] { return tally::python::capsule_of(tally::python::kFinish); });
}
