// str(...): joins values into one string; a substitute for std::format, which g++ 12 lacks. And the
// time of day as text.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

#include "../core/dtype.h"
#include "../core/macros.h"

namespace mezzo {

namespace detail {

inline void append(std::string& out, std::string_view v) { out += v; }
inline void append(std::string& out, const char* v) { out += v; }
inline void append(std::string& out, const std::string& v) { out += v; }
inline void append(std::string& out, char v) { out += v; }
inline void append(std::string& out, bool v) { out += v ? "true" : "false"; }
inline void append(std::string& out, DType v) { out += name(v); }

MZ_API void append(std::string& out, long long v);
MZ_API void append(std::string& out, unsigned long long v);
MZ_API void append(std::string& out, float v);
MZ_API void append(std::string& out, double v);
MZ_API void append(std::string& out, long double v);
/** Appends integers in decimal, and floats with the fewest digits that read back as the same
 *  value. */
template <std::integral T> void append(std::string& out, T v) {
  if constexpr (std::is_signed_v<T>)
    append(out, static_cast<long long>(v));
  else
    append(out, static_cast<unsigned long long>(v));
}

template <class T>
requires requires(const T& v) {
  { str(v) } -> std::convertible_to<std::string>;
}
void append(std::string& out, const T& v) {
  out += str(v);
}

}  // namespace detail

/** Returns the text of one number. */
template <class T>
requires(std::integral<T> || std::floating_point<T>)
std::string str(T v) {
  std::string out;
  detail::append(out, v);
  return out;
}

/** Returns the concatenation of the arguments' texts. */
template <class A, class B, class... Rest>
std::string str(const A& a, const B& b, const Rest&... rest) {
  std::string out;
  detail::append(out, a);
  detail::append(out, b);
  (detail::append(out, rest), ...);
  return out;
}

/** Returns the time in UTC as ISO 8601 has it: "2026-11-23T10:00:00Z". */
std::string utc_now();

}  // namespace mezzo
