// Checks of what layers are made with, and how it is shown.
// Sees: tensor. Private to this room.
// Read next: linear.cpp, conv.cpp.
#pragma once

#include <string>
#include <string_view>

#include "../tensor/error.h"
#include "../tensor/text.h"

namespace mezzo::nn::detail {

/** Errors: ValueError naming the layer and the argument unless value >= least. */
inline void require_at_least(std::int64_t least, std::string_view layer, const char* argument,
                             std::int64_t value) {
  if (value < least)
    fail<ValueError>(
        layer,
        {.what = str(argument, " is out of range"), .got = str(value), .expected = str("at least ", least)});
}

/** Errors: ValueError naming the layer and the argument unless 0 <= value <= 1. */
inline void require_probability(std::string_view layer, const char* argument, double value) {
  if (!(value >= 0 && value <= 1))
    fail<ValueError>(layer,
                     {.what = str(argument, " is no probability"), .got = str(value), .expected = "0..1"});
}

/** "5" where all are equal, else "5x3"; empty where none were given. */
template <class Sizes> std::string sizes_text(const Sizes& sizes, int dims) {
  if (!sizes.given()) return {};
  const auto values = sizes.expanded(dims, "layer", "size");
  bool equal = true;
  std::string text;
  for (std::size_t i = 0; i < static_cast<std::size_t>(dims); ++i) {
    equal = equal && values[i] == values[0];
    text += (i > 0 ? "x" : "") + str(values[i]);
  }
  return equal ? str(values[0]) : text;
}

}  // namespace mezzo::nn::detail
