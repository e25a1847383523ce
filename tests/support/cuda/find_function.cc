// cuGetProcAddress_v2, by which programs find all other functions.
#include <cstring>

#include "tests/support/cuda/exports.h"
#include "tests/support/cuda/machine.h"

namespace tally::test::cuda {
namespace {

constexpr int kDriverVersion = 13000;

struct Found {
  const char* name;
  void* address;
};
// Without one of the functions of gpu_bridge/cuda_api the library does not link.
const Found functions[] = {
#define TALLY_TEST_CUDA_ENTRY(member, function, parameters) \
  {#function, reinterpret_cast<void*>(&exported::member)},
    TALLY_CUDA_FUNCTIONS(TALLY_TEST_CUDA_ENTRY)
#undef TALLY_TEST_CUDA_ENTRY
};

}  // namespace

TALLY_TEST_EXPORT Code get_proc_address(const char* function, void** address, int version,
                                        unsigned long long flags,
                                        unsigned* status) __asm__("cuGetProcAddress_v2");

Code get_proc_address(const char* function, void** address, int version, unsigned long long,
                      unsigned* status) {
  *address = nullptr;
  if (status != nullptr) *status = 1;  // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
  if (version > kDriverVersion) return Code::kInvalidValue;
  {
    Machine& all = machine();
    const std::lock_guard lock(all.mutex);
    if (all.settings.missing_function == function) return Code::kSuccess;
  }
  for (const Found& found : functions) {
    if (std::strcmp(found.name, function) != 0) continue;
    *address = found.address;
    if (status != nullptr) *status = 0;
  }
  return Code::kSuccess;
}

}  // namespace tally::test::cuda
