// CHECK_THROWS_WITH_AS_TEXT: checks an exception's type and a part of its text. error_of(): its
// text.
#pragma once

#include <string>

#include "catch.h"

/** Returns the text of the E that f throws. */
template <class E, class F> std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no error of this type";
}

#define CHECK_THROWS_WITH_AS_TEXT(expression, type, part)               \
  do {                                                                  \
    std::string thrown_text = "nothing was thrown";                     \
    bool right_type = false;                                            \
    try {                                                               \
      (void)(expression);                                               \
    } catch (const type& e) {                                           \
      thrown_text = e.what();                                           \
      right_type = true;                                                \
    } catch (const std::exception& e) {                                 \
      thrown_text = std::string("another type: ") + e.what();           \
    }                                                                   \
    INFO(#expression << " threw: " << thrown_text);                     \
    CHECK((right_type && thrown_text.find(part) != std::string::npos)); \
  } while (false)
