// NCCL, as a table of its functions. The library is opened at run time, so that programs that link
// this also load on machines without it.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "gpu_bridge/cuda_api/cuda_abi.h"
#include "gpu_bridge/nccl_api/nccl_abi.h"

namespace tally::nccl {

// F(type of the result, member, function of NCCL, its parameters).
#define TALLY_NCCL_FUNCTIONS(F)                                                                  \
  F(Code, get_version, ncclGetVersion, (int* version))                                           \
  F(const char*, get_error_string, ncclGetErrorString, (Code code))                              \
  F(const char*, get_last_error, ncclGetLastError, (Comm comm))                                  \
  F(Code, get_unique_id, ncclGetUniqueId, (UniqueId * id))                                       \
  F(Code, comm_init_rank, ncclCommInitRank, (Comm * comm, int ranks, UniqueId id, int rank))     \
  F(Code, comm_destroy, ncclCommDestroy, (Comm comm))                                            \
  F(Code, comm_abort, ncclCommAbort, (Comm comm))                                                \
  F(Code, comm_get_async_error, ncclCommGetAsyncError, (Comm comm, Code * error))                \
  F(Code, comm_count, ncclCommCount, (const Comm comm, int* ranks))                              \
  F(Code, comm_user_rank, ncclCommUserRank, (const Comm comm, int* rank))                        \
  F(Code, group_start, ncclGroupStart, ())                                                       \
  F(Code, group_end, ncclGroupEnd, ())                                                           \
  F(Code, reduce_scatter, ncclReduceScatter,                                                     \
    (const void* in, void* out, std::size_t out_count, DataType type, RedOp op, Comm comm,       \
     cuda::Stream stream))                                                                       \
  F(Code, all_gather, ncclAllGather,                                                             \
    (const void* in, void* out, std::size_t in_count, DataType type, Comm comm,                  \
     cuda::Stream stream))                                                                       \
  F(Code, reduce, ncclReduce,                                                                    \
    (const void* in, void* out, std::size_t count, DataType type, RedOp op, int root, Comm comm, \
     cuda::Stream stream))                                                                       \
  F(Code, broadcast, ncclBroadcast,                                                              \
    (const void* in, void* out, std::size_t count, DataType type, int root, Comm comm,           \
     cuda::Stream stream))                                                                       \
  F(Code, all_reduce, ncclAllReduce,                                                             \
    (const void* in, void* out, std::size_t count, DataType type, RedOp op, Comm comm,           \
     cuda::Stream stream))

inline constexpr int kOldestVersion = 21300;  // NCCL 2.13, the first with ncclGetLastError

struct Library {
#define TALLY_NCCL_MEMBER(type, member, function, parameters) type(*member) parameters = nullptr;
  TALLY_NCCL_FUNCTIONS(TALLY_NCCL_MEMBER)
#undef TALLY_NCCL_MEMBER
};

// Opens libnccl.so.2, once for the process; the library is never closed. A copy that the process
// has loaded already, such as PyTorch's, is used. Any thread. kUnsupported: NCCL is not installed,
// or it is older than 2.13; the message says which.
Result<const Library*> system_library();

// The error of a call of NCCL: "ncclReduce: invalid argument". `comm` may be null; with it, the
// message ends with NCCL's own description.
Error failure(const Library& library, Comm comm, const char* call, Code code);

// Unit for kSuccess, else failure().
Outcome outcome(const Library& library, Comm comm, const char* call, Code code);

}  // namespace tally::nccl
