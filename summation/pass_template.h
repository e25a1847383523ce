// The pass that the vector instruction sets share: it folds W inputs block by block, rounds and
// stores.
//
// The code is in an unnamed namespace, so each object has its own copy (kernel.h has the reason). A
// kernel K defines three steps: raw bytes to an accumulator, the fold of two accumulators, and
// accumulators to raw bytes. Its vector type V defines how raw bytes are loaded and stored.
// Positions (`at`) are in bytes of elements, also when inputs or outputs are partial sums, which
// are wider.
#pragma once

#include "summation/kernel.h"

// Without the pragma, g++ unrolls nested loops only up to 200 instructions. A loop that is not
// unrolled keeps its accumulators in memory.
#if defined(__clang__)
#define TALLY_UNROLL _Pragma("unroll")
#else
#define TALLY_UNROLL _Pragma("GCC unroll 16")
#endif

namespace tally::summation {
namespace {

// The skew gains nothing with fewer inputs.
constexpr int kLeastSkewed = 5;

// Kernels with partial results in f32 instead of the element type.
template <class K>
concept Widens = requires(std::byte* p, typename K::Acc acc) {
  K::store_wide(p, acc);
};

// K for inputs that are partial sums.
template <class K>
struct OfPartials : K {
  static typename K::Acc load(const std::byte* p) { return K::load_wide(p); }
};

// The width of an input's element, in widths of K's element type.
template <class K>
constexpr std::size_t kInputScale = 1;
template <class K>
constexpr std::size_t kInputScale<OfPartials<K>> = K::kWideScale;

template <class K>
[[gnu::always_inline]] inline typename K::Acc load(const std::byte* input, std::size_t at) {
  return K::load(input + at * kInputScale<K>);
}

// Loads the last `bytes`, fewer than a vector. Lanes past the end are zeros.
template <class K>
[[gnu::always_inline]] inline typename K::Acc load_last(const std::byte* input, std::size_t at,
                                                        std::size_t bytes) {
  using V = typename K::Vector;
  if constexpr (kInputScale<K> == 1) {
    return K::widen(V::load_first(input + at, bytes));
  } else {
    std::byte rest[kInputScale<K> * V::kBytes] = {};
    __builtin_memcpy(rest, input + at * kInputScale<K>, bytes * kInputScale<K>);
    return K::load(rest);
  }
}

template <class V, int Units>
[[gnu::always_inline]] inline void store_everywhere(const Pass& pass, std::size_t at,
                                                    const typename V::Raw (&raw)[Units]) {
  for (std::size_t o = 0; o < pass.output_count; ++o) {
    std::byte* out = pass.outputs[o] + pass.output_offset + at;
    if (pass.stream) {
      TALLY_UNROLL for (int u = 0; u < Units; ++u) V::stream(out + u * V::kBytes, raw[u]);
    } else {
      TALLY_UNROLL for (int u = 0; u < Units; ++u) V::store(out + u * V::kBytes, raw[u]);
    }
  }
  if (pass.scratch != nullptr) {
    TALLY_UNROLL for (int u = 0; u < Units; ++u) {
      V::store(pass.scratch + at + u * V::kBytes, raw[u]);
    }
  }
}

// Writes accumulators to every output in f32: all of them when `bytes` is that of whole vectors,
// else the first `bytes` of acc[0].
template <class K, int Units>
[[gnu::always_inline]] inline void store_wide(const Pass& pass, std::size_t at,
                                              typename K::Acc (&acc)[Units], std::size_t bytes) {
  constexpr std::size_t kWideBytes = K::kWideScale * K::Vector::kBytes;
  K::settle(acc, 1);
  for (std::size_t o = 0; o < pass.output_count; ++o) {
    std::byte* out = pass.outputs[o] + pass.output_offset + at * K::kWideScale;
    if (bytes == Units * K::Vector::kBytes) {
      TALLY_UNROLL for (int u = 0; u < Units; ++u) K::store_wide(out + u * kWideBytes, acc[u]);
    } else {
      std::byte last[kWideBytes];
      K::store_wide(last, acc[0]);
      __builtin_memcpy(out, last, bytes * K::kWideScale);
    }
  }
}

// Returns the accumulators of the vectors from `at` on.
template <class K>
[[gnu::always_inline]] inline typename K::Acc* accumulators(const Pass& pass, std::size_t at) {
  return static_cast<typename K::Acc*>(pass.accumulators) + at / K::Vector::kBytes;
}

// Folds `Units` vectors at byte `at` of every input. `Inputs` is a template argument because each
// input then has load instructions of its own. The processor's prefetcher learns strides per
// instruction. With a loop over the inputs, the same loads ran at half the speed.
template <class K, int Inputs, int Units, bool Simple>
[[gnu::always_inline]] inline void block(const Pass& pass, const std::byte* const (&in)[Inputs],
                                         std::size_t at) {
  using V = typename K::Vector;
  typename K::Acc acc[Units];
  TALLY_UNROLL for (int u = 0; u < Units; ++u) acc[u] = load<K>(in[0], at + u * V::kBytes);
  if (!Simple && pass.resume) {
    TALLY_UNROLL for (int u = 0; u < Units; ++u) {
      acc[u] = K::fold(accumulators<K>(pass, at)[u], acc[u]);
    }
  }
  TALLY_UNROLL for (int w = 1; w < Inputs; ++w) {
    TALLY_UNROLL for (int u = 0; u < Units; ++u) {
      acc[u] = K::fold(acc[u], load<K>(in[w], at + u * V::kBytes));
    }
  }
  if (!Simple && !pass.finish) {
    TALLY_UNROLL for (int u = 0; u < Units; ++u) accumulators<K>(pass, at)[u] = acc[u];
    return;
  }
  if constexpr (!Simple && Widens<K>) {
    if (pass.widen) return store_wide<K>(pass, at, acc, Units * V::kBytes);
  }
  typename V::Raw raw[Units];
  K::finish(acc, raw, pass.divisor);
  if constexpr (Simple) {
    std::byte* out = pass.outputs[0] + pass.output_offset + at;
    TALLY_UNROLL for (int u = 0; u < Units; ++u) V::store(out + u * V::kBytes, raw[u]);
  } else {
    store_everywhere<V>(pass, at, raw);
  }
}

// A simple pass that reads input w w vectors behind input 0, with one accumulator for each vector
// in progress. Tiles start on pages, so the same offset of every input maps to the same set of the
// L1 cache. With 16 inputs at the same offset, each input evicts the prefetched lines of the
// others, and the speed is halved. At a distance of one line the inputs use different sets. Returns
// the number of bytes done. Precondition: at least Inputs - 1 vectors.
template <class K, int Inputs>
[[gnu::always_inline]] inline std::size_t skewed(const Pass& pass,
                                                 const std::byte* const (&in)[Inputs],
                                                 std::size_t vectors) {
  using V = typename K::Vector;
  std::byte* out = pass.outputs[0] + pass.output_offset;
  const std::uint32_t divisor = pass.divisor;
  const auto store = [&](std::size_t vector, typename K::Acc sum) {
    typename K::Acc acc[1] = {sum};
    typename V::Raw raw[1];
    K::finish(acc, raw, divisor);
    V::store(out + vector * V::kBytes, raw[0]);
  };
  // Indexed by vector modulo Inputs. Before a round starts at v, the accumulator of vector v + j
  // holds inputs 0..Inputs - 2 - j.
  typename K::Acc acc[Inputs];
  TALLY_UNROLL for (int j = 0; j < Inputs - 1; ++j) {
    acc[j] = K::load(in[0] + j * V::kBytes);
    TALLY_UNROLL for (int w = 1; w < Inputs - 1 - j; ++w) {
      acc[j] = K::fold(acc[j], K::load(in[w] + j * V::kBytes));
    }
  }
  std::size_t vector = 0;
  for (; vector + 2 * Inputs - 1 <= vectors; vector += Inputs) {
    const std::size_t at = vector * V::kBytes;
    TALLY_UNROLL for (int step = 0; step < Inputs; ++step) {
      acc[(step + Inputs - 1) % Inputs] = K::load(in[0] + at + (step + Inputs - 1) * V::kBytes);
      TALLY_UNROLL for (int w = 1; w < Inputs; ++w) {
        const int ahead = step + Inputs - 1 - w;
        acc[ahead % Inputs] = K::fold(acc[ahead % Inputs], K::load(in[w] + at + ahead * V::kBytes));
      }
      store(vector + static_cast<std::size_t>(step), acc[step]);
    }
  }
  const std::size_t at = vector * V::kBytes;
  TALLY_UNROLL for (int j = 0; j < Inputs - 1; ++j) {
    TALLY_UNROLL for (int w = Inputs - 1 - j; w < Inputs; ++w) {
      acc[j] = K::fold(acc[j], K::load(in[w] + at + j * V::kBytes));
    }
    store(vector + static_cast<std::size_t>(j), acc[j]);
  }
  return (vector + Inputs - 1) * V::kBytes;
}

// Folds and stores the last bytes, fewer than a vector.
template <class K>
[[gnu::noinline]] void tail(const Pass& pass, std::size_t at, std::size_t bytes) {
  using V = typename K::Vector;
  typename K::Acc acc[1] = {load_last<K>(pass.inputs[0], at, bytes)};
  if (pass.resume) acc[0] = K::fold(*accumulators<K>(pass, at), acc[0]);
  for (std::size_t w = 1; w < pass.input_count; ++w) {
    acc[0] = K::fold(acc[0], load_last<K>(pass.inputs[w], at, bytes));
  }
  if (!pass.finish) {
    *accumulators<K>(pass, at) = acc[0];
    return;
  }
  if constexpr (Widens<K>) {
    if (pass.widen) return store_wide<K>(pass, at, acc, bytes);
  }
  typename V::Raw raw[1];
  K::finish(acc, raw, pass.divisor);
  for (std::size_t o = 0; o < pass.output_count; ++o) {
    V::store_first(pass.outputs[o] + pass.output_offset + at, bytes, raw[0]);
  }
  if (pass.scratch != nullptr) V::store_first(pass.scratch + at, bytes, raw[0]);
}

template <class K, int Inputs, bool Simple>
void run(const Pass& caller_pass) {
  using V = typename K::Vector;
  constexpr int kUnits = K::kUnits;
  const Pass pass = caller_pass;  // a copy that no store can alias
  const std::byte* in[Inputs];
  TALLY_UNROLL for (int w = 0; w < Inputs; ++w) in[w] = pass.inputs[w];
  const std::size_t bytes = pass.count * K::kElementBytes;
  std::size_t at = 0;
  if constexpr (Simple && Inputs >= kLeastSkewed && Inputs <= K::kMostSkewed) {
    const std::size_t vectors = bytes / V::kBytes;
    if (vectors >= 16 * Inputs) at = skewed<K, Inputs>(caller_pass, in, vectors);
  }
  for (; bytes - at >= kUnits * V::kBytes; at += kUnits * V::kBytes) {
    block<K, Inputs, kUnits, Simple>(pass, in, at);
  }
  for (; bytes - at >= V::kBytes; at += V::kBytes) {
    block<K, Inputs, 1, Simple>(pass, in, at);
  }
  if (at != bytes) tail<K>(caller_pass, at, bytes - at);
}

template <int...>
struct Counts {};
// Counts<1, 2, ..., Most>
template <int Most, int... More>
struct UpTo : UpTo<Most - 1, Most, More...> {};
template <int... All>
struct UpTo<0, All...> {
  using Type = Counts<All...>;
};

template <class K, class = UpTo<kMaxSimpleInputs>::Type, class = UpTo<kMaxGroupInputs>::Type>
struct ByInputCount;
template <class K, int... Simple, int... General>
struct ByInputCount<K, Counts<Simple...>, Counts<General...>> {
  static constexpr PassFunction kSimple[] = {&run<K, Simple, true>...};
  static constexpr PassFunction kGeneral[] = {&run<K, General, false>...};
  static constexpr OperationKernels kBoth = {kSimple, kGeneral, nullptr};
};

// For sums with wider partial results: adds the kernels for these.
template <class K, class = UpTo<kMaxGroupInputs>::Type>
struct WithPartials;
template <class K, int... General>
struct WithPartials<K, Counts<General...>> {
  static constexpr PassFunction kPartials[] = {&run<OfPartials<K>, General, false>...};
  static constexpr OperationKernels kAll = {ByInputCount<K>::kSimple, ByInputCount<K>::kGeneral,
                                            kPartials};
};

template <class K>
constexpr OperationKernels operation_kernels() {
  if constexpr (Widens<K>) {
    return WithPartials<K>::kAll;
  } else {
    return ByInputCount<K>::kBoth;
  }
}

template <class Sum, class Min, class Max>
constexpr TypeKernels make_type(SquaresFunction squares) {
  return {{operation_kernels<Sum>(), operation_kernels<Sum>(), operation_kernels<Min>(),
           operation_kernels<Max>()},
          squares};
}

}  // namespace
}  // namespace tally::summation
