/* The gradients and the check of results that all systems of the comparison use. The sums of these
 * gradients are exact in any order. For C and C++. */
#ifndef TALLY_PERF_COMPARE_REFERENCE_H
#define TALLY_PERF_COMPARE_REFERENCE_H

#include <stddef.h>
#include <stdio.h>

static inline float gradient(int rank, size_t i) {
  const size_t of_rank = rank;
  return (i * 7 + of_rank * 13) % 1021;
}

static inline long long count_wrong(const float* sum, size_t count, int ranks) {
  long long wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    float expected = 0;
    for (int r = 0; r < ranks; ++r) expected += gradient(r, i);
    wrong += sum[i] != expected;
  }
  return wrong;
}

/* Prints the one line that systems.py reads. `times_us` has `iterations` entries, in us. */
static inline void report(long long wrong, const double* times_us, int iterations) {
  printf("{\"wrong\": %lld, \"times_us\": [", wrong);
  for (int i = 0; i < iterations; ++i) printf("%s%.2f", i ? ", " : "", times_us[i]);
  printf("]}\n");
}

#endif
