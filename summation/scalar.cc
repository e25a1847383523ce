#include "summation/scalar.h"

#include <array>
#include <cstring>
#include <utility>

#include "summation/kernel.h"

namespace tally::summation {
namespace {

template <class T>
T load(const std::byte* elements, std::size_t i) {
  T value;  // memcpy: spans have any alignment
  std::memcpy(&value, elements + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* elements, std::size_t i, T value) {
  std::memcpy(elements + i * sizeof(T), &value, sizeof(T));
}

template <ElementType kType, Operation kOperation>
void run(const Pass& pass) {
  using Element = scalar::Element<kType>;
  using Fold = scalar::Fold<kOperation>;
  using Stored = typename Element::Stored;
  using Wide = typename Element::Wide;
  auto* partial = static_cast<Wide*>(pass.partial);
  for (std::size_t i = 0; i < pass.count; ++i) {
    Wide sum = Element::widen(load<Stored>(pass.inputs[0], i));
    if (pass.resume) sum = Fold::step(partial[i], sum);
    for (std::size_t w = 1; w < pass.input_count; ++w) {
      sum = Fold::step(sum, Element::widen(load<Stored>(pass.inputs[w], i)));
    }
    if (!pass.finish) {
      partial[i] = sum;
      continue;
    }
    const Stored result = Element::round(Fold::end(sum, pass.divisor));
    for (std::size_t o = 0; o < pass.output_count; ++o) {
      store(pass.outputs[o] + pass.output_offset, i, result);
    }
    if (pass.scratch != nullptr) store(pass.scratch, i, result);
  }
}

template <ElementType kType>
std::uint64_t squares(const std::byte* elements, std::size_t count, double* lanes) {
  using Element = scalar::Element<kType>;
  using Stored = typename Element::Stored;
  std::uint64_t nonfinite = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(Element::widen(load<Stored>(elements, i)));
    if (std::isfinite(value)) {
      lanes[i % kSquareLanes] += value * value;
    } else {
      ++nonfinite;
    }
  }
  return nonfinite;
}

// The same kernel for every input count.
template <ElementType kType, Operation kOperation>
constexpr auto kByInputCount = [] {
  std::array<PassFunction, kMaxPassInputs> functions{};
  functions.fill(&run<kType, kOperation>);
  return functions;
}();

template <ElementType kType, std::size_t... kOperations>
constexpr TypeKernels make_type(std::index_sequence<kOperations...> /*operations*/) {
  return {.pass = {kByInputCount<kType, static_cast<Operation>(kOperations)>.data()...},
          .squares = &squares<kType>};
}

template <ElementType kType>
constexpr TypeKernels kOfType = make_type<kType>(std::make_index_sequence<kOperationCount>());

template <std::size_t... kTypes>
constexpr Kernels make(std::index_sequence<kTypes...> /*types*/) {
  return {.type = {&kOfType<static_cast<ElementType>(kTypes)>...}};
}

}  // namespace

constinit const Kernels kScalarKernels = make(std::make_index_sequence<kElementTypeCount>());

}  // namespace tally::summation
