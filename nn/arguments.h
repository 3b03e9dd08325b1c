// Checks of constructor arguments of layers, and their text in summaries. Private to nn/.
#pragma once

#include <string>
#include <string_view>

#include "../tensor/core/error.h"
#include "../tensor/text/text.h"

namespace mezzo::nn::detail {

/** Throws ValueError, with the names of the layer and the argument, unless value >= least. */
inline void require_at_least(std::int64_t least, std::string_view layer, const char* argument,
                             std::int64_t value) {
  if (value < least)
    fail<ValueError>(layer, {.what = str(argument, " is out of range"),
                             .got = str(value),
                             .expected = str("at least ", least)});
}

/** Throws ValueError, with the names of the layer and the argument, unless 0 <= value <= 1. */
inline void require_probability(std::string_view layer, const char* argument, double value) {
  if (!(value >= 0 && value <= 1))
    fail<ValueError>(
        layer,
        {.what = str(argument, " is not a probability"), .got = str(value), .expected = "0..1"});
}

/** Returns "5" if all sizes are equal, else a text like "5x3"; empty if no sizes are given. */
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
