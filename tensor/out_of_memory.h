// or_out_of_memory: memory that ends within the standard library is an OutOfMemory like any other.
// Sees: error.h.
// Read next: dispatch.cpp (a user).
#pragma once

#include <new>
#include <stdexcept>
#include <string_view>

#include "error.h"

namespace mezzo {

/** What f() gives. Errors: those of f; OutOfMemory naming `op` in place of std::bad_alloc and
 *  std::length_error. */
template <class F> decltype(auto) or_out_of_memory(std::string_view op, F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    fail<OutOfMemory>(op, {.what = "the host's memory does not suffice"});
  } catch (const std::length_error&) {
    fail<OutOfMemory>(op, {.what = "the host's memory does not suffice"});
  }
}

}  // namespace mezzo
