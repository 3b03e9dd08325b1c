// close_guard(): removes a guard from a thread's list of open guards.
#pragma once

#include "../text/log.h"

namespace mezzo {

/** Removes `guard` from a thread's list of open guards, innermost first. A guard that still has
 *  others open inside it is removed too, so that they do not refer to it, and `report` is logged as
 *  an error. */
template <class Guard, class Base>
void close_guard(Guard*& innermost, Guard& guard, Guard* Base::* outer,
                 const char* report) noexcept {
  Guard** link = &innermost;
  if (*link != &guard) log_text(Severity::error, report);
  while (*link && *link != &guard) link = &((*link)->*outer);
  if (*link) *link = guard.*outer;
}

}  // namespace mezzo
