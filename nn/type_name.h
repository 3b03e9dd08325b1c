// The name of a C++ type as text, at compile time.
#pragma once

#include <string_view>

namespace mezzo::nn::detail {

/** Returns the type's name as the compiler spells it, such as "mezzo::nn::Linear". */
template <class T> constexpr std::string_view type_name() {
  // g++: "... type_name() [with T = mezzo::nn::Linear; std::string_view = ...]"
  // clang: "... type_name() [T = mezzo::nn::Linear]"
  constexpr std::string_view text = __PRETTY_FUNCTION__;
  constexpr std::size_t begin = text.find("T = ") + 4;
  constexpr std::size_t semicolon = text.find(';', begin);
  constexpr std::size_t end = semicolon != std::string_view::npos ? semicolon : text.rfind(']');
  return text.substr(begin, end - begin);
}

/** Returns the name without namespaces, enclosing functions and template arguments, such as
 *  "Linear". */
constexpr std::string_view short_name(std::string_view full) {
  std::size_t end = full.size();
  if (end > 0 && full[end - 1] == '>') {
    int depth = 0;
    do {
      --end;
      depth += (full[end] == '>') - (full[end] == '<');
    } while (end > 0 && depth > 0);
  }
  const std::string_view name = full.substr(0, end);
  const std::size_t colons = name.rfind("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

}  // namespace mezzo::nn::detail
