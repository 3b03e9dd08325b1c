// or_out_of_memory: converts std::bad_alloc and std::length_error to OutOfMemory.
#pragma once

#include <new>
#include <stdexcept>
#include <string_view>

#include "../core/error.h"

namespace mezzo {

/** Returns f(). Errors: those of f; OutOfMemory naming `op` in place of std::bad_alloc and
 *  std::length_error. */
template <class F> decltype(auto) or_out_of_memory(std::string_view op, F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    fail<OutOfMemory>(op, {.what = "not enough host memory"});
  } catch (const std::length_error&) {
    fail<OutOfMemory>(op, {.what = "not enough host memory"});
  }
}

}  // namespace mezzo
