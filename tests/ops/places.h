// Index arithmetic of the oracles: coordinates of a row-major position, and the inverse.
#pragma once

#include "cases.h"

namespace cases {

/** Coordinates, one per dimension. */
using Place = std::vector<std::int64_t>;

inline std::int64_t numel(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

/** Returns the coordinates of row-major position i. */
inline Place place_of(const Shape& shape, std::int64_t i) {
  Place place(shape.size());
  for (int d = shape.rank() - 1; d >= 0; --d) {
    place[static_cast<std::size_t>(d)] = i % shape[d];
    i /= shape[d];
  }
  return place;
}

inline std::int64_t position_of(const Shape& shape, const Place& place) {
  std::int64_t i = 0;
  for (int d = 0; d < shape.rank(); ++d) i = i * shape[d] + place[static_cast<std::size_t>(d)];
  return i;
}

}  // namespace cases
