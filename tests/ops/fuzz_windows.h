// Arguments of the ops with windows, for the argument fuzzer.
#pragma once

#include "fuzz.h"

namespace fuzz {

using namespace mezzo;

/** Draws an image with `dims` spatial dimensions, batched or not. */
inline Tensor image(Draw& d, int dims) {
  if (d.chance(0.05)) return d.tensor();
  Shape shape;
  for (std::int64_t i = d.below(2); i < 2; ++i) shape.push_back(d.below(4));
  for (int i = 0; i < dims; ++i) shape.push_back(d.chance(0.03) ? 0 : 1 + d.below(9));
  return d.floats(shape);
}

/** Draws one number for all of `dims` dimensions or one for each, sometimes a wrong number of
 *  them. */
inline std::vector<std::int64_t> window(Draw& d, int dims, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> values;
  const std::int64_t n = d.flag() ? 1 : d.chance(0.05) ? 1 + d.below(3) : dims;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(d.number(low, high));
  return values;
}

inline WindowSizes as_window(const std::vector<std::int64_t>& v) {
  if (v.empty()) return {};
  return v.size() == 1   ? WindowSizes{v[0]}
         : v.size() == 2 ? WindowSizes{v[0], v[1]}
                         : WindowSizes{v[0], v[1], v[2]};
}
inline ConvPadding as_padding(const std::vector<std::int64_t>& v) {
  return v.size() == 1   ? ConvPadding{v[0]}
         : v.size() == 2 ? ConvPadding{v[0], v[1]}
                         : ConvPadding{v[0], v[1], v[2]};
}

/** Returns the number for dimension i; nothing where there is none. */
inline std::optional<Wide> at(const std::vector<std::int64_t>& v, int dims, int i) {
  if (v.size() == 1) return v[0];
  if (static_cast<int>(v.size()) != dims) return std::nullopt;
  return v[static_cast<std::size_t>(i)];
}

}  // namespace fuzz
