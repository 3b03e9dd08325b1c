// extreme_of_row: the greatest or least value of a row.
#pragma once

#include <cmath>
#include <optional>
#include <type_traits>

#include "fold.h"
#include "order.h"

namespace mezzo::cpu_kernels {

namespace detail {

/** Returns fold_lanes(x, n, start, order, order) if all values are finite. This takes two
 *  operations per vector, one of them v * 0 + 0, which is nan where v is not finite. */
template <int kLanes, class C, class Order>
std::optional<C> extreme_of_finite(const C* x, std::int64_t n, C start, Order) {
  alignas(64) C lanes[kLanes], zeros[kLanes] = {};
  std::fill(lanes, lanes + kLanes, start);
  const auto add = [&](int j, C value) {
    lanes[j] = Order::of_numbers(lanes[j], value);
    zeros[j] = std::fma(value, C(0), zeros[j]);
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) add(j, x[i + j]);
  for (int j = 0; i + j < n; ++j) add(j, x[i + j]);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) {
      lanes[j] = Order::of_numbers(lanes[j], lanes[j + width]);
      zeros[j] += zeros[j + width];
    }
  if (zeros[0] == C(0)) return lanes[0];
  return std::nullopt;
}

}  // namespace detail

/** Returns fold_row(x, n, start, order, order) for Greater or Less, with the same bits and fewer
 *  operations if all values are finite. */
template <class C, class Order> C extreme_of_row(const C* x, std::int64_t n, C start, Order order) {
  if constexpr (std::is_floating_point_v<C>) {
    std::optional<C> found;
    if (n >= 256)
      found = detail::extreme_of_finite<64>(x, n, start, order);
    else if (n >= 16)
      found = detail::extreme_of_finite<16>(x, n, start, order);
    if (found) return *found;
  }
  return fold_row(x, n, start, order, order);
}

}  // namespace mezzo::cpu_kernels
