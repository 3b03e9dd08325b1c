// Measures the time of a call.
#pragma once

#include <chrono>

namespace mezzo {

/** Returns the seconds that one call of f() takes. */
template <class F> double seconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace mezzo
