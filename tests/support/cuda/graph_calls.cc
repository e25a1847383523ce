// The exported functions of stream capture and graphs.
#include <algorithm>
#include <utility>

#include "tests/support/cuda/enqueue.h"
#include "tests/support/cuda/entry.h"
#include "tests/support/cuda/exports.h"

namespace tally::test::cuda::exported {
namespace {

// All forks of the capture have been joined to its origin: every node comes before its end.
bool joined(const Capture& capture, const std::vector<std::size_t>& tail) {
  std::vector<bool> reached(capture.nodes.size(), false);
  std::vector<std::size_t> rest = tail;
  while (!rest.empty()) {
    const std::size_t node = rest.back();
    rest.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    const auto& before = capture.nodes[node].after;
    rest.insert(rest.end(), before.begin(), before.end());
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

// Puts the nodes on hardware queues: those that one stream captured on one queue. The launch ends
// with the last operation of the stream.
void launch_nodes(StreamState& stream, ExecState& exec) {
  std::vector<OperationPtr> after = implicit_order(stream);
  if (exec.last != nullptr) after.push_back(exec.last);
  const OperationPtr begin = put(stream, stream.queue, {"begin of a graph"}, std::move(after));
  std::vector<OperationPtr> made{begin};
  for (const Node& node : exec.graph->nodes) {
    std::vector<OperationPtr> before;
    for (const std::size_t one : node.after) before.push_back(made[one + 1]);
    if (before.empty()) before.push_back(begin);
    made.push_back(put(stream, stream.queue + node.branch, node.work, std::move(before)));
  }
  exec.last = stream.last = put(stream, stream.queue, {"end of a graph"}, std::move(made));
}

template <typename Handle, typename Map>
Code erase(const char* function, Handle handle, Map Machine::*map) {
  return call(function, Needs::kInit, [&](Machine& all, Machine::Lock&, ContextState*) {
    if ((all.*map).erase(handle) == 1) return Code::kSuccess;
    all.misuse(std::string(function) + " of what is no graph: " + text_of(handle));
    return Code::kInvalidValue;
  });
}

}  // namespace

Code stream_is_capturing(Stream handle, unsigned* status) {
  constexpr const char* kName = "cuStreamIsCapturing";
  return call(kName, Needs::kInit, [&](Machine& all, Machine::Lock&, ContextState* current) {
    const StreamPtr stream = find_stream(all, kName, handle, current);
    if (stream == nullptr) return Code::kInvalidHandle;
    if (stream->legacy) {
      for (const StreamPtr& other : stream->context->blocking_streams()) {
        if (other->capture != nullptr) return Code::kStreamCaptureImplicit;
      }
    }
    *status = stream->capture == nullptr     ? tally::cuda::kCaptureNone
              : stream->capture->invalidated ? tally::cuda::kCaptureInvalidated
                                             : tally::cuda::kCaptureActive;
    return Code::kSuccess;
  });
}

Code thread_exchange_stream_capture_mode(unsigned* mode) {
  return call("cuThreadExchangeStreamCaptureMode", Needs::kInit,
              [&](Machine&, Machine::Lock&, ContextState*) {
                if (*mode > tally::cuda::kCaptureModeRelaxed) return Code::kInvalidValue;
                *mode = exchange_capture_mode(*mode);
                return Code::kSuccess;
              });
}

Code stream_begin_capture(Stream handle, unsigned mode) {
  return stream_call("cuStreamBeginCapture", handle,
                     [&](Machine&, Machine::Lock&, StreamState& stream) {
                       if (stream.legacy) return Code::kStreamCaptureUnsupported;
                       if (stream.capture != nullptr || mode > tally::cuda::kCaptureModeRelaxed) {
                         return Code::kInvalidValue;
                       }
                       stream.capture = std::make_shared<Capture>(
                           Capture{handle, stream.context, mode, std::this_thread::get_id()});
                       stream.capture->streams = {handle};
                       stream.tail.clear();
                       return Code::kSuccess;
                     });
}

Code stream_end_capture(Stream handle, Graph* graph) {
  return stream_call(
      "cuStreamEndCapture", handle, [&](Machine& all, Machine::Lock&, StreamState& stream) {
        *graph = nullptr;
        const std::shared_ptr<Capture> capture = stream.capture;
        if (capture == nullptr || capture->origin != handle) {
          if (capture != nullptr) capture->invalidated = true;
          all.misuse("cuStreamEndCapture of a stream that has not begun a capture");
          return capture == nullptr ? Code::kInvalidValue : Code::kStreamCaptureUnmatched;
        }
        if (capture->mode != tally::cuda::kCaptureModeRelaxed &&
            capture->thread != std::this_thread::get_id()) {
          all.misuse("cuStreamEndCapture by another thread than that of cuStreamBeginCapture");
          return Code::kStreamCaptureWrongThread;
        }
        const std::vector<std::size_t> tail = stream.tail;
        end_capture(all, capture);
        if (capture->invalidated) return Code::kStreamCaptureInvalidated;
        if (!joined(*capture, tail)) return Code::kStreamCaptureUnjoined;
        *graph = all.make_handle<Graph>();
        all.graphs[*graph] = std::make_shared<const GraphState>(
            GraphState{capture->context->handle, std::move(capture->nodes)});
        return Code::kSuccess;
      });
}

Code graph_instantiate(GraphExec* exec, Graph graph, unsigned long long) {
  return call("cuGraphInstantiateWithFlags", Needs::kInit,
              [&](Machine& all, Machine::Lock&, ContextState*) {
                const auto found = all.graphs.find(graph);
                if (found == all.graphs.end()) {
                  all.misuse("cuGraphInstantiate of what is no graph: " + text_of(graph));
                  return Code::kInvalidValue;
                }
                *exec = all.make_handle<GraphExec>();
                all.executables[*exec] = std::make_shared<ExecState>(ExecState{found->second, {}});
                return Code::kSuccess;
              });
}

Code graph_launch(GraphExec exec, Stream handle) {
  return stream_call(
      "cuGraphLaunch", handle, [&](Machine& all, Machine::Lock&, StreamState& stream) {
        const auto found = all.executables.find(exec);
        if (found == all.executables.end()) {
          all.misuse("cuGraphLaunch of what is no executable graph: " + text_of(exec));
          return Code::kInvalidValue;
        }
        // Real devices capture it as a child graph.
        if (stream.capture != nullptr) return Code::kNotSupported;
        const Code code = allow_default_stream(stream);
        if (code != Code::kSuccess) return code;
        if (found->second->graph->context != stream.context->handle) {
          all.misuse("cuGraphLaunch of a graph of another context");
          return Code::kInvalidContext;
        }
        launch_nodes(stream, *found->second);
        return code;
      });
}

Code graph_destroy(Graph graph) {
  return erase("cuGraphDestroy", graph, &Machine::graphs);
}

Code graph_exec_destroy(GraphExec exec) {
  return erase("cuGraphExecDestroy", exec, &Machine::executables);
}

}  // namespace tally::test::cuda::exported
