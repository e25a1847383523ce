// Which instruction sets this build has kernels for, and which of them this processor runs.
#include "summation/kernel.h"
#include "summation/reduce.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#endif

namespace tally::summation {

#if defined(__x86_64__)
namespace {

void drain() {
  _mm_sfence();
}

constinit const Kernels kAvx2Kernels = {
    .type = {&kAvx2F32, &kAvx2F64, &kAvx2F16, &kAvx2Bf16, &kAvx2I8, &kAvx2U8, &kAvx2I32, &kAvx2I64},
    .drain = &drain};

constinit const Kernels kAvx512Kernels = {
    .type = {&kAvx512F32, &kAvx512F64, &kAvx512F16, &kAvx512Bf16, &kAvx512I8, &kAvx512U8,
             &kAvx512I32, &kAvx512I64},
    .drain = &drain};

bool has_f16c() {  // older compilers do not know this name in __builtin_cpu_supports
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// These ask for the operating system's support of the registers, too.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && has_f16c();
}
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0;
}

}  // namespace

const Kernels* kernels(Isa isa) {
  static const bool kAvx2 = has_avx2();
  static const bool kAvx512 = has_avx512();
  switch (isa) {
    case Isa::kScalar:
      return &kScalarKernels;
    case Isa::kAvx2:
      return kAvx2 ? &kAvx2Kernels : nullptr;
    case Isa::kAvx512:
      return kAvx512 ? &kAvx512Kernels : nullptr;
  }
  return nullptr;
}

#else

const Kernels* kernels(Isa isa) {
  return isa == Isa::kScalar ? &kScalarKernels : nullptr;
}

#endif

Isa best_isa() {
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
    if (kernels(isa) != nullptr) return isa;
  }
  return Isa::kScalar;
}

}  // namespace tally::summation
