// Result<T> holds a value, or the Error that says why there is none. (C++20 has no std::expected.)
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

#include "base/status.h"

namespace tally {

// A status, and a message for the person that can fix the problem: the object, the value, the
// remedy.
struct [[nodiscard]] Error {
  Status status = Status::kInternal;
  std::string message;
};

inline Error refused(std::string message) {
  return {Status::kRefused, std::move(message)};
}
inline Error invalid(std::string message) {
  return {Status::kInvalidArgument, std::move(message)};
}

// Holds a T or an Error. The data path returns Status instead, because an Error owns a string.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Precondition: ok().
  T& value() & {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    assert(ok());
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Precondition: !ok().
  const Error& error() const {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }
  Status status() const { return ok() ? Status::kOk : error().status; }

 private:
  std::variant<T, Error> state_;
};

// A Result without a value.
struct Unit {};
using Outcome = Result<Unit>;

}  // namespace tally
