// A comparison is worth something only with something that works.
#include "perf/kernels/byteps_reducer.h"

#include <gtest/gtest.h>

#include <vector>

#include "perf/kernels/workload.h"

namespace tally::perf {
namespace {

using summation::ElementType;
using summation::Isa;
using summation::Operation;

// Small integers: exact in any order and with any number of roundings.
template <class T, class Reduce>
void expect_same(ElementType type, const Reduce& byteps, T (*encode)(int)) {
  constexpr std::size_t kCount = 1003;
  std::vector<std::vector<T>> inputs(5, std::vector<T>(kCount));
  std::vector<const T*> arrivals;
  for (std::size_t w = 0; w < inputs.size(); ++w) {
    for (std::size_t i = 0; i < kCount; ++i)
      inputs[w][i] = encode(static_cast<int>((i * (w + 3)) % 100));
    arrivals.push_back(inputs[w].data());
  }
  std::vector<T> theirs(kCount);
  byteps(theirs.data(), arrivals.data(), arrivals.size(), kCount);

  std::vector<Span> spans;
  for (const auto& input : inputs) {
    spans.push_back({reinterpret_cast<const std::byte*>(input.data()), kCount * sizeof(T)});
  }
  std::vector<View> views;
  for (const auto& span : spans) views.emplace_back(&span, 1);
  std::vector<T> ours(kCount);
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(ours.data())};
  summation::reduce(*summation::kernels(Isa::kScalar),
                    {.type = type, .count = kCount, .inputs = views, .outputs = outputs});
  EXPECT_EQ(ours, theirs);
}

TEST(BytepsReducer, SumsF32) {
  if (summation::kernels(Isa::kAvx2) == nullptr) GTEST_SKIP() << "this processor has no AVX2";
  expect_same<float>(ElementType::kF32, byteps_reduce_f32,
                     [](int x) { return static_cast<float>(x); });
}

TEST(BytepsReducer, SumsF16) {
  if (summation::kernels(Isa::kAvx2) == nullptr) GTEST_SKIP() << "this processor has no AVX2";
  expect_same<std::uint16_t>(ElementType::kF16, byteps_reduce_f16,
                             [](int x) { return encode_f16(static_cast<float>(x)); });
}

}  // namespace
}  // namespace tally::perf
