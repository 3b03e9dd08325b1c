// Unverified: a scope in which libraries are called as after their first calls.
#pragma once

#include <mezzo.h>

/** Turns verify_libraries() off until the end of the scope, for tests that count launches of first
 *  calls. */
struct Unverified {
  Unverified() { mezzo::set_verify_libraries(false); }
  ~Unverified() { mezzo::set_verify_libraries(true); }
  Unverified(const Unverified&) = delete;
  Unverified& operator=(const Unverified&) = delete;
};
