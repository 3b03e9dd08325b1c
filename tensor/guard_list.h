// close_guard(): ends a guard that is one of several open on a thread.
// Sees: log.h.
// Read next: ../amp/casting.cpp, ../amp/trace.cpp (two users).
#pragma once

#include "log.h"

namespace mezzo {

/** Takes `guard` out of a thread's list of open guards, innermost first. One that others are still
 *  open inside goes all the same, and the log says `report`: they must not refer to it any
 *  longer. */
template <class Guard, class Base>
void close_guard(Guard*& innermost, Guard& guard, Guard* Base::*outer, const char* report) noexcept {
  Guard** link = &innermost;
  if (*link != &guard) log_text(Severity::error, report);
  while (*link && *link != &guard) link = &((*link)->*outer);
  if (*link) *link = guard.*outer;
}

}  // namespace mezzo
