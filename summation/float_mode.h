// The processor's floating-point mode, made the default for a while.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tally::summation {

// A host program may have asked its threads to flush subnormals (frameworks do, and so does any
// library linked with -ffast-math) or to round otherwise. Sums are the same bits there too.
class DefaultFloatMode {
 public:
#if defined(__SSE__)
  DefaultFloatMode() : saved_(_mm_getcsr()) {
    if ((saved_ & ~kFlags) != kDefault) _mm_setcsr(kDefault);
  }
  ~DefaultFloatMode() {
    if ((saved_ & ~kFlags) != kDefault) _mm_setcsr(saved_);
  }
#else
  DefaultFloatMode() = default;
  ~DefaultFloatMode() = default;
#endif
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
#if defined(__SSE__)
  static constexpr unsigned kFlags = 0x3f;      // exceptions that happened: no mode
  static constexpr unsigned kDefault = 0x1f80;  // nearest, subnormals kept, no traps
  unsigned saved_;
#endif
};

}  // namespace tally::summation
