// For tests that compare own declarations of a foreign interface with the foreign header, where it
// is installed. The comparisons are static assertions.
#pragma once

#include <type_traits>

namespace tally::test {

// A type without the names of enumerations: all that the calling convention depends on. A test
// specializes it for a structure whose layout it compares by itself.
template <typename Type>
struct Plain {
  using Is = Type;
};
template <typename Type>
requires std::is_enum_v<Type>
struct Plain<Type> {
  using Is = std::underlying_type_t<Type>;
};
template <typename Type>
struct Plain<const Type> {
  using Is = const typename Plain<Type>::Is;
};
template <typename Type>
struct Plain<Type*> {
  using Is = typename Plain<Type>::Is*;
};
template <typename Result, typename... Parameters>
struct Plain<Result (*)(Parameters...)> {
  using Is = typename Plain<Result>::Is (*)(typename Plain<Parameters>::Is...);
};

template <typename Own, typename Theirs>
constexpr bool kCompatible = std::is_same_v<typename Plain<Own>::Is, typename Plain<Theirs>::Is>;

}  // namespace tally::test

// The pointer `own` can hold the address of the header's function.
#define TALLY_SAME_FUNCTION(own, function)                                        \
  static_assert(::tally::test::kCompatible<decltype(own), decltype(&(function))>, \
                #function " has other parameters in the header")
// The constants have the same value.
#define TALLY_SAME(own, theirs) static_assert(static_cast<long>(own) == static_cast<long>(theirs))
