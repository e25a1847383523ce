// For library_test.cc: a libnccl.so.2 as of NCCL 2.10, which has no ncclGetLastError.
#include "gpu_bridge/nccl_api/nccl_abi.h"

extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = 21003;
  return 0;
}
extern "C" __attribute__((visibility("default"))) const char* ncclGetErrorString(unsigned) {
  return "no error";
}
