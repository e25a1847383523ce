// Finds out which instruction sets this build has kernels for, and which of them the processor has.
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

constexpr Kernels kAvx2Kernels = {
    .type = {&avx2_f32, &avx2_f64, &avx2_f16, &avx2_bf16, &avx2_i8, &avx2_u8, &avx2_i32, &avx2_i64},
    .drain = &drain};

constexpr Kernels kAvx512Kernels = {.type = {&avx512_f32, &avx512_f64, &avx512_f16, &avx512_bf16,
                                             &avx512_i8, &avx512_u8, &avx512_i32, &avx512_i64},
                                    .drain = &drain};

bool has_f16c() {  // older compilers do not know this name in __builtin_cpu_supports
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// These also check that the operating system supports the registers.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && has_f16c();
}
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0;
}

}  // namespace

const Kernels* kernels(Isa isa) {
  static const bool avx2 = has_avx2();
  static const bool avx512 = has_avx512();
  switch (isa) {
    case Isa::kScalar:
      return &scalar_kernels;
    case Isa::kAvx2:
      return avx2 ? &kAvx2Kernels : nullptr;
    case Isa::kAvx512:
      return avx512 ? &kAvx512Kernels : nullptr;
  }
  return nullptr;
}

#else

const Kernels* kernels(Isa isa) {
  return isa == Isa::kScalar ? &scalar_kernels : nullptr;
}

#endif

Isa best_isa() {
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
    if (kernels(isa) != nullptr) return isa;
  }
  return Isa::kScalar;
}

}  // namespace tally::summation
