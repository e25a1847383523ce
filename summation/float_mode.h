// Sets the processor's floating-point mode to the default for a while.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tally::summation {

// Sets the default mode in the constructor and restores the old mode in the destructor. A host
// program may make its threads flush subnormals or use another rounding mode. Frameworks do this,
// and so does any library linked with -ffast-math. With this class, sums have the same bits there
// too. Without SSE the class does nothing.
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
  static constexpr unsigned kFlags = 0x3f;      // exception flags: not part of the mode
  static constexpr unsigned kDefault = 0x1f80;  // round to nearest, keep subnormals, no traps
  unsigned saved_;
#endif
};

}  // namespace tally::summation
