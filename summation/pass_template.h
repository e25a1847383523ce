// The walk that the vector instruction sets share: fold W inputs block by block, round, store.
//
// In an unnamed namespace, so that each object has its own copy (see kernel.h). A kernel K says how
// a vector of raw bytes becomes an accumulator, how two accumulators fold, and how accumulators
// become raw bytes again; its V says how raw bytes are loaded and stored.
#pragma once

#include "summation/kernel.h"

// g++ unrolls nested loops only to 200 instructions by itself, and a loop that stays a loop keeps
// its accumulators in memory.
#if defined(__clang__)
#define TALLY_UNROLL _Pragma("unroll")
#else
#define TALLY_UNROLL _Pragma("GCC unroll 16")
#endif

namespace tally::summation {
namespace {

template <class V, int kUnits>
[[gnu::always_inline]] inline void store_everywhere(const Pass& pass, std::size_t at,
                                                    const typename V::Raw (&raw)[kUnits]) {
  for (std::size_t o = 0; o < pass.output_count; ++o) {
    std::byte* out = pass.outputs[o] + pass.output_offset + at;
    if (pass.stream) {
      TALLY_UNROLL for (int u = 0; u < kUnits; ++u) V::stream(out + u * V::kBytes, raw[u]);
    } else {
      TALLY_UNROLL for (int u = 0; u < kUnits; ++u) V::store(out + u * V::kBytes, raw[u]);
    }
  }
  if (pass.scratch != nullptr) {
    TALLY_UNROLL for (int u = 0; u < kUnits; ++u) {
      V::store(pass.scratch + at + u * V::kBytes, raw[u]);
    }
  }
}

// The accumulators of the vectors from `at` bytes of the inputs on.
template <class K>
[[gnu::always_inline]] inline typename K::Acc* partial(const Pass& pass, std::size_t at) {
  return static_cast<typename K::Acc*>(pass.partial) + at / K::Vector::kBytes;
}

// kUnits vectors at `at` bytes of every input. kInputs is a template argument not for the loop's
// sake: each input gets load instructions of its own, and the processor's prefetcher learns strides
// by instruction. With one loop over inputs the same loads ran at half the speed.
template <class K, int kInputs, int kUnits>
[[gnu::always_inline]] inline void block(const Pass& pass, const std::byte* const (&in)[kInputs],
                                         std::size_t at) {
  using V = typename K::Vector;
  typename K::Acc acc[kUnits];
  TALLY_UNROLL for (int u = 0; u < kUnits; ++u) acc[u] = K::load(in[0] + at + u * V::kBytes);
  if (pass.resume) {
    TALLY_UNROLL for (int u = 0; u < kUnits; ++u) acc[u] = K::fold(partial<K>(pass, at)[u], acc[u]);
  }
  TALLY_UNROLL for (int w = 1; w < kInputs; ++w) {
    TALLY_UNROLL for (int u = 0; u < kUnits; ++u) {
      acc[u] = K::fold(acc[u], K::load(in[w] + at + u * V::kBytes));
    }
  }
  if (!pass.finish) {
    TALLY_UNROLL for (int u = 0; u < kUnits; ++u) partial<K>(pass, at)[u] = acc[u];
    return;
  }
  typename V::Raw raw[kUnits];
  K::finish(acc, raw, pass.divisor);
  store_everywhere<V>(pass, at, raw);
}

// The last bytes, fewer than a vector. Lanes past the end are zeros.
template <class K>
[[gnu::noinline]] void tail(const Pass& pass, std::size_t at, std::size_t bytes) {
  using V = typename K::Vector;
  typename K::Acc acc[1] = {K::widen(V::load_partial(pass.inputs[0] + at, bytes))};
  if (pass.resume) acc[0] = K::fold(*partial<K>(pass, at), acc[0]);
  for (std::size_t w = 1; w < pass.input_count; ++w) {
    acc[0] = K::fold(acc[0], K::widen(V::load_partial(pass.inputs[w] + at, bytes)));
  }
  if (!pass.finish) {
    *partial<K>(pass, at) = acc[0];
    return;
  }
  typename V::Raw raw[1];
  K::finish(acc, raw, pass.divisor);
  for (std::size_t o = 0; o < pass.output_count; ++o) {
    V::store_partial(pass.outputs[o] + pass.output_offset + at, bytes, raw[0]);
  }
  if (pass.scratch != nullptr) V::store_partial(pass.scratch + at, bytes, raw[0]);
}

template <class K, int kInputs>
void run(const Pass& caller_pass) {
  using V = typename K::Vector;
  constexpr int kUnits = K::kUnits;
  const Pass pass = caller_pass;  // a copy that no store can alias
  const std::byte* in[kInputs];
  for (int w = 0; w < kInputs; ++w) in[w] = pass.inputs[w];
  const std::size_t bytes = pass.count * K::kElementBytes;
  std::size_t at = 0;
  for (; bytes - at >= kUnits * V::kBytes; at += kUnits * V::kBytes) {
    block<K, kInputs, kUnits>(pass, in, at);
  }
  for (; bytes - at >= V::kBytes; at += V::kBytes) {
    block<K, kInputs, 1>(pass, in, at);
  }
  if (at != bytes) tail<K>(caller_pass, at, bytes - at);
}

template <class K>
struct ByInputCount {
  static constexpr PassFunction kFunctions[kMaxPassInputs] = {
      &run<K, 1>,  &run<K, 2>,  &run<K, 3>,  &run<K, 4>,  &run<K, 5>,  &run<K, 6>,
      &run<K, 7>,  &run<K, 8>,  &run<K, 9>,  &run<K, 10>, &run<K, 11>, &run<K, 12>,
      &run<K, 13>, &run<K, 14>, &run<K, 15>, &run<K, 16>};
};

template <class Sum, class Min, class Max>
constexpr TypeKernels make_type(SquaresFunction squares) {
  return {{ByInputCount<Sum>::kFunctions, ByInputCount<Sum>::kFunctions,
           ByInputCount<Min>::kFunctions, ByInputCount<Max>::kFunctions},
          squares};
}

}  // namespace
}  // namespace tally::summation
