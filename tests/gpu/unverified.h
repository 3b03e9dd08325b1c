// Unverified, AnyBits: scopes in which libraries are called as after their first calls, and in
// which results may vary from run to run.
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

/** Allows nondeterministic results until the end of the scope. */
struct AnyBits {
  AnyBits() { mezzo::set_allow_nondeterministic(true); }
  ~AnyBits() { mezzo::set_allow_nondeterministic(false); }
  AnyBits(const AnyBits&) = delete;
  AnyBits& operator=(const AnyBits&) = delete;
};
