// tally._core: sessions and collectives on arrays.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <cmath>

#include "base/clock.h"
#include "base/element.h"
#include "integrations/python/src/array.h"
#include "integrations/python/src/bindings.h"
#include "integrations/python/src/communicator.h"
#include "integrations/python/src/shared_pool.h"

namespace py = pybind11;

namespace tally::python {
namespace {

std::uint32_t milliseconds_of(std::optional<double> seconds, const char* name) {
  if (!seconds) return 0;
  if (!(*seconds > 0) || *seconds > 86400) {
    throw Failure(TALLY_INVALID_ARGUMENT, std::string(name) + ": " + std::to_string(*seconds) +
                                              " seconds; more than 0, at most a day");
  }
  return std::max(1u, milliseconds(*seconds));
}

std::string name_of(tally_type type) {
  return std::string(name(static_cast<ElementType>(type)));
}

tally_op op_of(const std::string& name) {
  if (name == "sum") return TALLY_SUM;
  if (name == "average" || name == "avg") return TALLY_AVERAGE;
  if (name == "min") return TALLY_MIN;
  if (name == "max") return TALLY_MAX;
  throw Failure(TALLY_INVALID_ARGUMENT,
                "op '" + name + "' is not one of 'sum', 'average', 'min', 'max'");
}

// An operation under way. It keeps the arrays and the session alive.
class Handle {
 public:
  Handle(std::shared_ptr<Communicator> communicator, py::object in, py::object out)
      : communicator_(std::move(communicator)), state_(std::make_shared<State>()) {
    state_->in = std::move(in);
    state_->out = std::move(out);
  }

  // The arrays live until the completion, also when the handle is dropped before.
  Done done() {
    return [state = state_](const Outcome& outcome) mutable {
      state->outcome = outcome;
      state->ended.store(true, std::memory_order_release);
      const py::gil_scoped_acquire gil;
      state->in = py::object();
      // Released here, because this may be the last reference to the output: the function itself is
      // destroyed without the GIL, and a handle on another thread may have gone meanwhile.
      state.reset();
    };
  }

  bool ended() const { return state_->ended.load(std::memory_order_acquire); }

  bool poll() {
    if (ended()) return true;
    const py::gil_scoped_release nogil;
    communicator_->poll();
    return ended();
  }

  // Returns the result. Throws the Failure of the operation, or TALLY_AGAIN when the timeout passes
  // first.
  py::object wait(std::optional<double> timeout) {
    std::optional<Nanos> until;
    if (timeout) until = monotonic_now() + static_cast<Nanos>(*timeout * kSecond);
    bool over = ended();
    if (!over) {
      const py::gil_scoped_release nogil;
      over = communicator_->await([&] { return ended(); }, until, check_signals);
    }
    if (!over) throw Failure(TALLY_AGAIN, "no completion in time; the operation goes on");
    if (state_->outcome.status != TALLY_OK) throw state_->outcome.failure();
    return state_->out;
  }

  Outcome outcome() const {
    if (!ended()) throw Failure(TALLY_AGAIN, "the operation has not ended yet");
    return state_->outcome;
  }

 private:
  struct State {
    std::atomic<bool> ended{false};
    Outcome outcome;
    py::object in, out;
  };

  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<State> state_;
};

struct Choices {
  std::string op = "sum";
  std::uint32_t root = 0;
  std::optional<std::uint32_t> tag;
  std::uint32_t priority = 0;
  std::optional<double> deadline;
  bool stats = false;
};

// A block of memory that every node on this machine can use in place. The block returns to the pool
// when the last array on it is gone.
class Region {
 public:
  explicit Region(std::size_t bytes) : bytes_(bytes), data_(allocate(bytes)) {}
  ~Region() { SharedPool::instance().free(data_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::size_t bytes() const { return bytes_; }
  py::buffer_info buffer() const {
    return {data_, 1, py::format_descriptor<std::uint8_t>::format(),
            static_cast<py::ssize_t>(bytes_)};
  }

 private:
  static void* allocate(std::size_t bytes) {
    const auto block = SharedPool::instance().allocate(bytes);
    if (block) return *block;
    throw Failure(static_cast<tally_status>(block.status()), block.error().message);
  }

  std::size_t bytes_;
  void* data_;
};

class Session {
 public:
  explicit Session(const CommunicatorOptions& options) : communicator_(connect(options)) {}

  Communicator& communicator() { return *communicator_; }

  // `in` or `out` may be None when the rank has none.
  Handle start(tally_kind kind, std::uint64_t count, const py::object& in, const py::object& out,
               const Choices& choices) {
    Request request;
    request.kind = kind;
    request.op = op_of(choices.op);
    request.count = count;
    request.root = choices.root;
    request.tag = choices.tag;
    request.priority = choices.priority;
    request.deadline_ms = milliseconds_of(choices.deadline, "deadline");
    request.stats = choices.stats;
    request.awaited = true;
    std::optional<tally_type> type;
    if (!in.is_none()) {
      const Array array = array_of(in, "input");
      request.in = array.data;
      type = array.type;
    }
    if (!out.is_none()) {
      const Array array = array_of(out, "output");
      if (!array.writable) {
        throw Failure(TALLY_INVALID_ARGUMENT,
                      "output: it is read-only; give one that can be written as `out`");
      }
      if (type && *type != array.type) {
        throw Failure(TALLY_INVALID_ARGUMENT, "output: elements of " + name_of(array.type) +
                                                  ", where the input has " + name_of(*type) +
                                                  "; give both the same type");
      }
      request.out = array.data;
      type = array.type;
    }
    request.type = type.value_or(TALLY_U8);
    Handle handle(communicator_, in, out);
    Done done = handle.done();
    const py::gil_scoped_release nogil;
    communicator_->post(request, std::move(done));
    return handle;
  }

 private:
  std::shared_ptr<Communicator> communicator_;
};

std::uint64_t elements(const py::object& array, const char* name) {
  return array_of(array, name).count;
}

void require_elements(const py::object& array, const char* name, std::uint64_t expected) {
  if (const std::uint64_t count = elements(array, name); count != expected) {
    throw Failure(TALLY_INVALID_ARGUMENT, std::string(name) + ": " + std::to_string(count) +
                                              " elements, where " + std::to_string(expected) +
                                              " belong: give an array of that length");
  }
}

Handle all_reduce(Session& session, const py::object& in, const py::object& out,
                  const Choices& choices) {
  const py::object& result = out.is_none() ? in : out;
  const std::uint64_t count = elements(in, "input");
  require_elements(result, "output", count);
  return session.start(TALLY_ALL_REDUCE, count, in, result, choices);
}

Handle reduce(Session& session, const py::object& in, const py::object& out,
              const Choices& choices) {
  const bool root = session.communicator().rank() == choices.root;
  const py::object result = !root ? py::none() : out.is_none() ? in : out;
  const std::uint64_t count = elements(in, "input");
  if (root) require_elements(result, "output", count);
  return session.start(TALLY_REDUCE, count, in, result, choices);
}

Handle broadcast(Session& session, const py::object& array, const Choices& choices) {
  const bool root = session.communicator().rank() == choices.root;
  return session.start(TALLY_BROADCAST, elements(array, "array"), root ? array : py::none(), array,
                       choices);
}

Handle reduce_scatter(Session& session, const py::object& in, const py::object& out,
                      const Choices& choices) {
  const std::uint64_t count = elements(in, "input");
  require_elements(out, "output",
                   session.communicator().received({TALLY_REDUCE_SCATTER, TALLY_U8, {}, count}));
  return session.start(TALLY_REDUCE_SCATTER, count, in, out, choices);
}

Handle all_gather(Session& session, const py::object& in, const py::object& out,
                  const Choices& choices) {
  const std::uint64_t count = elements(out, "output");
  require_elements(in, "input",
                   session.communicator().contributed({TALLY_ALL_GATHER, TALLY_U8, {}, count}));
  return session.start(TALLY_ALL_GATHER, count, in, out, choices);
}

constexpr const char* kSessionDoc = R"(One rank's session with a summation node.

All ranks of a job open one with the same job, token and ranks. Collectives are asynchronous: they
return a Handle, and the arrays belong to the node until Handle.wait() has returned. Any thread may
use a session. The GIL is released while waiting; Ctrl-C ends a wait.

address: "unix:/path" of the node; None: $TALLY_ADDRESS, else this machine's own node.
connect_timeout, deadline: seconds; a node that is still starting is waited for, and an operation
that not all ranks have announced by its deadline fails at all of them with tally.Error.
checksums: what this rank contributes has some, and the node checks them; None: $TALLY_CHECKSUMS.
$TALLY_ON_RANK_LOSS=finish: the job goes on without a rank that is lost, with at least $TALLY_QUORUM
ranks; the same at all ranks.

Arrays are contiguous and of float16, bfloat16 (DLPack only), float32, float64, int8, uint8, int32
or int64. Memory of a Region (tally.empty), of tensors of 1 MiB and more made after `import
tally.torch`, and what adopt() was told of is used in place by the node; other memory is copied.)";

using Tag = std::optional<std::uint32_t>;
using Seconds = std::optional<double>;

void bind_collectives(py::class_<Session>& session) {
  session
      .def(
          "all_reduce",
          [](Session& s, const py::object& in, const py::object& out, const std::string& op,
             Tag tag, std::uint32_t priority, Seconds deadline, bool stats) {
            return all_reduce(s, in, out, Choices{op, 0, tag, priority, deadline, stats});
          },
          py::arg("array"), py::arg("out") = py::none(), py::arg("op") = "sum", py::kw_only(),
          py::arg("tag") = py::none(), py::arg("priority") = 0, py::arg("deadline") = py::none(),
          py::arg("stats") = false,
          "Every rank gets the element-wise op of all ranks' arrays, in `out` or in place.")
      .def(
          "reduce",
          [](Session& s, const py::object& in, const py::object& out, std::uint32_t root,
             const std::string& op, Tag tag, std::uint32_t priority, Seconds deadline) {
            return reduce(s, in, out, Choices{op, root, tag, priority, deadline, false});
          },
          py::arg("array"), py::arg("out") = py::none(), py::arg("root") = 0, py::arg("op") = "sum",
          py::kw_only(), py::arg("tag") = py::none(), py::arg("priority") = 0,
          py::arg("deadline") = py::none(), "As all_reduce, but only `root` gets the result.")
      .def(
          "broadcast",
          [](Session& s, const py::object& array, std::uint32_t root, Tag tag,
             std::uint32_t priority, Seconds deadline) {
            return broadcast(s, array, Choices{"sum", root, tag, priority, deadline, false});
          },
          py::arg("array"), py::arg("root") = 0, py::kw_only(), py::arg("tag") = py::none(),
          py::arg("priority") = 0, py::arg("deadline") = py::none(),
          "Every rank's array becomes what `root` has in it.")
      .def(
          "reduce_scatter",
          [](Session& s, const py::object& in, const py::object& out, const std::string& op,
             Tag tag, std::uint32_t priority, Seconds deadline) {
            return reduce_scatter(s, in, out, Choices{op, 0, tag, priority, deadline, false});
          },
          py::arg("array"), py::arg("out"), py::arg("op") = "sum", py::kw_only(),
          py::arg("tag") = py::none(), py::arg("priority") = 0, py::arg("deadline") = py::none(),
          "Rank r of W gets elements [n*r/W, n*(r+1)/W) of the op of all ranks' n elements.")
      .def(
          "all_gather",
          [](Session& s, const py::object& in, const py::object& out, Tag tag,
             std::uint32_t priority, Seconds deadline) {
            return all_gather(s, in, out, Choices{"sum", 0, tag, priority, deadline, false});
          },
          py::arg("array"), py::arg("out"), py::kw_only(), py::arg("tag") = py::none(),
          py::arg("priority") = 0, py::arg("deadline") = py::none(),
          "Rank r of W contributes elements [n*r/W, n*(r+1)/W) of the n that every rank gets.")
      .def(
          "barrier",
          [](Session& s, Tag tag, Seconds deadline) {
            return s.start(TALLY_BARRIER, 0, py::none(), py::none(),
                           Choices{"sum", 0, tag, 0, deadline, false});
          },
          py::kw_only(), py::arg("tag") = py::none(), py::arg("deadline") = py::none(),
          "Ends when every rank has come to it.");
}

void bind_session(py::module_& module) {
  py::class_<Session> session(module, "Session", kSessionDoc);
  bind_collectives(session);
  session
      .def(py::init([](std::optional<std::string> address, const std::string& job,
                       const std::string& token, std::uint32_t rank, std::uint32_t ranks,
                       Seconds connect_timeout, Seconds deadline, std::optional<bool> checksums) {
             const CommunicatorOptions options{address.value_or(""),
                                               job,
                                               token,
                                               rank,
                                               ranks,
                                               milliseconds_of(connect_timeout, "connect_timeout"),
                                               milliseconds_of(deadline, "deadline"),
                                               checksums};
             const py::gil_scoped_release nogil;
             return std::make_unique<Session>(options);
           }),
           py::kw_only(), py::arg("address") = py::none(), py::arg("job") = "default",
           py::arg("token") = "", py::arg("rank") = 0, py::arg("ranks") = 1,
           py::arg("connect_timeout") = py::none(), py::arg("deadline") = py::none(),
           py::arg("checksums") = py::none())
      .def_property_readonly("rank", [](Session& s) { return s.communicator().rank(); })
      .def_property_readonly("ranks", [](Session& s) { return s.communicator().ranks(); })
      .def_property_readonly("shards", [](Session& s) { return s.communicator().info().shards; })
      .def_property_readonly("epoch", [](Session& s) { return s.communicator().info().epoch; })
      .def_property_readonly(
          "transport",
          [](Session& s) {
            const char* name = s.communicator().info().transport;
            return std::string(name == nullptr ? "" : name);
          },
          "How bytes travel to the node: \"shm\", \"verbs\" or \"fabric\".")
      .def_property_readonly(
          "copied_bytes", [](Session& s) { return s.communicator().copied_bytes(); },
          "Bytes that were copied because their memory is not the node's: 0 when all is in place.")
      .def(
          "adopt",
          [](Session& s, const py::object& object) {
            const Array array = array_of(object, "array");
            s.communicator().adopt(array.data, array.bytes());
          },
          py::arg("array"), py::keep_alive<1, 2>(),
          "The node uses this array's memory in place from now on, until forget() or close().")
      .def(
          "forget",
          [](Session& s, const py::object& object) {
            s.communicator().forget(array_of(object, "array").data);
          },
          py::arg("array"), "Undoes adopt().")
      .def(
          "close", [](Session& s) { s.communicator().close(); },
          py::call_guard<py::gil_scoped_release>(),
          "Ends the session; what is outstanding fails as cancelled.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](Session& s, const py::args&) {
        const py::gil_scoped_release nogil;
        s.communicator().close();
      });
}

void bind_region(py::module_& module) {
  py::class_<Region>(
      module, "Region", py::buffer_protocol(),
      "Memory of `bytes` bytes that every node on this machine uses in place, in any\n"
      "session. It has the buffer protocol, and goes when the last array on it has\n"
      "gone. Its contents are undefined at first.")
      .def(py::init<std::size_t>(), py::arg("bytes"))
      .def_property_readonly("nbytes", &Region::bytes)
      .def_buffer(&Region::buffer);
  // For tally.torch, which contains the code of the pool but must use this pool.
  module.attr("_pool") = py::capsule(&SharedPool::instance(), "tally.SharedPool");
}

void bind_handle(py::module_& module) {
  py::class_<Handle>(module, "Handle", "An operation under way.")
      .def("wait", &Handle::wait, py::arg("timeout") = py::none(),
           "The output array, when it is complete. timeout: seconds; then tally.Error with status\n"
           "\"again\", and the operation goes on. Raises tally.Error when the operation failed.")
      .def("done", &Handle::poll, "Has it ended, well or not?")
      .def_property_readonly(
          "sum_of_squares", [](const Handle& h) { return h.outcome().sum_of_squares; },
          "Of the result, with stats=True.")
      .def_property_readonly(
          "nonfinite", [](const Handle& h) { return h.outcome().nonfinite; },
          "Infinities and NaNs in the result, with stats=True.")
      .def_property_readonly(
          "contributors", [](const Handle& h) { return h.outcome().contributors; },
          "The number of ranks whose contributions the result has: fewer than `ranks` when the "
          "job\n"
          "goes on without some. The same at all of them.")
      .def_property_readonly(
          "round", [](const Handle& h) { return h.outcome().round; },
          "Which operation of its tag this is. It shows a rank that returns where the others are.");
}

}  // namespace
}  // namespace tally::python

PYBIND11_MODULE(_core, module) {
  module.doc() = "Sessions with a Tally summation node; see the package tally.";
  tally::python::communicators().close_at_exit();
  pybind11::register_local_exception_translator(tally::python::translate);
  tally::python::bind_region(module);
  tally::python::bind_handle(module);
  tally::python::bind_session(module);
}
