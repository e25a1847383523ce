#include "summation/scalar.h"

#include <array>
#include <cstring>
#include <utility>

#include "summation/kernel.h"
#include "summation/types.h"

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

template <class Stored>
void store_everywhere(const Pass& pass, std::size_t i, Stored result) {
  for (std::size_t o = 0; o < pass.output_count; ++o) {
    store(pass.outputs[o] + pass.output_offset, i, result);
  }
  if (pass.scratch != nullptr) store(pass.scratch, i, result);
}

// Input defines how inputs are stored: as elements, or as partial sums of elements.
template <ElementType Type, Operation Op, class Input = scalar::Element<Type>>
void run(const Pass& pass) {
  using Element = scalar::Element<Type>;
  using Fold = scalar::Fold<Op>;
  using Stored = typename Input::Stored;
  using Wide = typename Element::Wide;
  auto* accumulators = static_cast<Wide*>(pass.accumulators);
  for (std::size_t i = 0; i < pass.count; ++i) {
    Wide sum = Input::widen(load<Stored>(pass.inputs[0], i));
    if (pass.resume) sum = Fold::step(accumulators[i], sum);
    for (std::size_t w = 1; w < pass.input_count; ++w) {
      sum = Fold::step(sum, Input::widen(load<Stored>(pass.inputs[w], i)));
    }
    if (!pass.finish) {
      accumulators[i] = sum;
    } else if (pass.widen) {
      store_everywhere(pass, i, scalar::Plain<Wide>::round(sum));
    } else {
      store_everywhere(pass, i, Element::round(Fold::end(sum, pass.divisor)));
    }
  }
}

template <ElementType Type>
std::uint64_t squares(const std::byte* elements, std::size_t count, double* lanes) {
  using Element = scalar::Element<Type>;
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
template <PassFunction Kernel>
constexpr auto kByInputCount = [] {
  std::array<PassFunction, kMaxSimpleInputs> functions{};
  functions.fill(Kernel);
  return functions;
}();

template <ElementType Type, Operation Op>
constexpr OperationKernels operation_kernels() {
  constexpr ElementType kPartial = partial_type(Type, Op);
  const PassFunction* all = kByInputCount<&run<Type, Op>>.data();
  if constexpr (kPartial == Type) {
    return {all, all, nullptr};
  } else {
    return {all, all, kByInputCount<&run<Type, Op, scalar::Element<kPartial>>>.data()};
  }
}

template <ElementType Type, std::size_t... Ops>
constexpr TypeKernels make_type(std::index_sequence<Ops...> /*operations*/) {
  return {.operation = {operation_kernels<Type, static_cast<Operation>(Ops)>()...},
          .squares = &squares<Type>};
}

template <ElementType Type>
constexpr TypeKernels kOfType = make_type<Type>(std::make_index_sequence<kOperationCount>());

template <std::size_t... Types>
constexpr Kernels make(std::index_sequence<Types...> /*types*/) {
  return {.type = {&kOfType<static_cast<ElementType>(Types)>...}};
}

}  // namespace

constinit const Kernels scalar_kernels = make(std::make_index_sequence<kElementTypeCount>());

}  // namespace tally::summation
