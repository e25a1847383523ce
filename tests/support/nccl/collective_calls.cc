// The exported functions of collective operations and groups.
#include <utility>

#include "tests/support/cuda/cuda_process.h"
#include "tests/support/nccl/clique.h"
#include "tests/support/nccl/exports.h"

namespace tally::test::nccl::exported {
namespace {

using tally::cuda::Pointer;

// What a thread has called since ncclGroupStart, by communicator in the order of first calls.
struct OpenGroup {
  struct Part {
    std::shared_ptr<CommState> comm;
    Stream stream;
    Batch batch;
  };
  int depth = 0;
  std::vector<Part> parts;
};

OpenGroup& open_group() {
  thread_local OpenGroup group;
  return group;
}

Code refuse(const Operation& operation, const std::string& why) {
  const std::lock_guard lock(world().mutex);
  world().misuse(operation.text() + ": " + why);
  return Code::kInvalidUsage;
}

Pointer pointer_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

bool is_device_memory(Pointer begin, std::size_t bytes) {
  if (bytes == 0) return true;
  const std::byte* const first = cuda::host_view(begin);
  const std::byte* const last = cuda::host_view(begin + bytes - 1);
  return first != nullptr && last == first + bytes - 1;
}

// Whether the buffers are apart, or one of them lies in the other where NCCL allows it.
bool buffers_fit(const Operation& operation, int rank, int ranks) {
  const std::size_t in = operation.in_bytes(ranks), out = operation.out_bytes(ranks);
  if (operation.in + in <= operation.out || operation.out + out <= operation.in) return true;
  const std::size_t own =
      static_cast<std::size_t>(rank) * operation.count * bytes_of(operation.type);
  switch (operation.kind) {
    case Kind::kReduceScatter:
      return operation.out == operation.in + own;
    case Kind::kAllGather:
      return operation.in == operation.out + own;
    default:
      return operation.in == operation.out;
  }
}

Code check(const CommState& comm, const Operation& operation, Stream stream) {
  const int ranks = comm.clique->ranks;
  if (bytes_of(operation.type) == 0) return refuse(operation, "the double has not this type");
  if (operation.root < 0 || operation.root >= ranks) return refuse(operation, "no such root");
  if (operation.op == RedOp::kProd) return refuse(operation, "the double has no products");
  const bool reads = operation.kind != Kind::kBroadcast || comm.rank == operation.root;
  const bool writes = operation.kind != Kind::kReduce || comm.rank == operation.root;
  if (reads && !is_device_memory(operation.in, operation.in_bytes(ranks))) {
    return refuse(operation, "the input is not memory of a device");
  }
  if (writes && !is_device_memory(operation.out, operation.out_bytes(ranks))) {
    return refuse(operation, "the output is not memory of a device");
  }
  if (reads && writes && !buffers_fit(operation, comm.rank, ranks)) {
    return refuse(operation, "the buffers overlap");
  }
  unsigned capture = tally::cuda::kCaptureNone;
  driver().stream_is_capturing(stream, &capture);
  if (capture != tally::cuda::kCaptureNone) {
    return refuse(operation, "the stream is being captured, which the double does not model");
  }
  return Code::kSuccess;
}

Code add(const std::shared_ptr<CommState>& comm, const Operation& operation, Stream stream) {
  OpenGroup& group = open_group();
  if (group.depth == 0) return enqueue(comm, {operation}, stream);
  for (OpenGroup::Part& part : group.parts) {
    if (part.comm != comm) continue;
    if (part.stream != stream) {
      return refuse(operation, "a group with several streams, which the double does not model");
    }
    part.batch.push_back(operation);
    return Code::kSuccess;
  }
  group.parts.push_back({comm, stream, {operation}});
  return Code::kSuccess;
}

Code collective(const Operation& operation, Comm handle, Stream stream) {
  const char* const name = name_of(operation.kind);
  const auto comm = find(name, handle);
  if (comm == nullptr) return Code::kInvalidArgument;
  {
    const std::lock_guard lock(world().mutex);
    if (const Code code = world().count(name); code != Code::kSuccess) return code;
  }
  {
    const std::lock_guard lock(comm->clique->mutex);
    ++comm->counters.calls[name];
  }
  if (static_cast<unsigned>(operation.op) > static_cast<unsigned>(RedOp::kAvg)) {
    return refuse(operation, "no such operator");
  }
  if (const Code code = check(*comm, operation, stream); code != Code::kSuccess) return code;
  return add(comm, operation, stream);
}

}  // namespace

Code group_start() {
  ++open_group().depth;
  const std::lock_guard lock(world().mutex);
  return world().count("ncclGroupStart");
}

Code group_end() {
  OpenGroup& group = open_group();
  if (group.depth == 0) return Code::kInvalidUsage;
  if (--group.depth > 0) return Code::kSuccess;
  const auto parts = std::exchange(group.parts, {});
  {
    const std::lock_guard lock(world().mutex);
    if (const Code code = world().count("ncclGroupEnd"); code != Code::kSuccess) return code;
  }
  for (const OpenGroup::Part& part : parts) {
    const Code code = enqueue(part.comm, part.batch, part.stream);
    if (code != Code::kSuccess) return code;
  }
  return Code::kSuccess;
}

Code reduce_scatter(const void* in, void* out, std::size_t out_count, DataType type, RedOp op,
                    Comm comm, Stream stream) {
  return collective({Kind::kReduceScatter, pointer_of(in), pointer_of(out), out_count, type, op, 0},
                    comm, stream);
}

Code all_gather(const void* in, void* out, std::size_t in_count, DataType type, Comm comm,
                Stream stream) {
  return collective(
      {Kind::kAllGather, pointer_of(in), pointer_of(out), in_count, type, RedOp::kSum, 0}, comm,
      stream);
}

Code reduce(const void* in, void* out, std::size_t count, DataType type, RedOp op, int root,
            Comm comm, Stream stream) {
  return collective({Kind::kReduce, pointer_of(in), pointer_of(out), count, type, op, root}, comm,
                    stream);
}

Code broadcast(const void* in, void* out, std::size_t count, DataType type, int root, Comm comm,
               Stream stream) {
  return collective(
      {Kind::kBroadcast, pointer_of(in), pointer_of(out), count, type, RedOp::kSum, root}, comm,
      stream);
}

Code all_reduce(const void* in, void* out, std::size_t count, DataType type, RedOp op, Comm comm,
                Stream stream) {
  return collective({Kind::kAllReduce, pointer_of(in), pointer_of(out), count, type, op, 0}, comm,
                    stream);
}

}  // namespace tally::test::nccl::exported
