// Arguments of the ops with windows that the fuzzer draws.
#pragma once

#include "../row.h"

namespace rows {

using namespace mezzo;

/** Draws an image with `dims` spatial dimensions, batched or not. */
inline Tensor image(FuzzDraw& d, int dims) {
  if (d.chance(0.05)) return d.tensor();
  Shape shape;
  for (std::int64_t i = d.below(2); i < 2; ++i) shape.push_back(d.below(4));
  for (int i = 0; i < dims; ++i) shape.push_back(d.chance(0.03) ? 0 : 1 + d.below(9));
  return d.floats(shape);
}

/** Draws one number for all of `dims` dimensions or one for each, sometimes a wrong number of
 *  them. */
inline std::vector<std::int64_t> window(FuzzDraw& d, int dims, std::int64_t low,
                                        std::int64_t high) {
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

/** The arguments of a pooling op. */
struct PoolArguments {
  Tensor x;
  std::vector<std::int64_t> kernel, stride, padding, dilation;
  bool ceil_mode;
};

/** Draws arguments of a pooling op. */
inline PoolArguments pool_arguments(FuzzDraw& d, int dims) {
  PoolArguments a;
  a.x = image(d, dims);
  a.kernel = window(d, dims, 1, 3);
  if (d.flag()) a.stride = window(d, dims, 1, 3);
  a.padding = d.flag() ? window(d, dims, 0, 1) : std::vector<std::int64_t>{0};
  a.dilation = d.flag() ? window(d, dims, 1, 2) : std::vector<std::int64_t>{1};
  a.ceil_mode = d.flag();
  return a;
}

/** Returns the pooled shape, or nothing. */
inline Expected pooled_shape(const PoolArguments& a, int dims, bool pairs) {
  const Sizes x = sizes(a.x);
  const auto spatial = static_cast<std::size_t>(dims);
  if (x.size() != spatial + 1 && x.size() != spatial + 2) return refused();
  Sizes shape = x;
  for (int i = 0; i < dims; ++i) {
    const auto kernel = at(a.kernel, dims, i),
               stride = at(a.stride.empty() ? a.kernel : a.stride, dims, i),
               padding = at(a.padding, dims, i), dilation = at(a.dilation, dims, i);
    if (!kernel || !stride || !padding || !dilation || *kernel < 1 || *stride < 1 ||
        *dilation < 1 || *padding < 0)
      return refused();
    const std::size_t d = x.size() - spatial + static_cast<std::size_t>(i);
    const Wide room = x[d] + 2 * *padding - *dilation * (*kernel - 1) - 1;
    // Rounded up, the last window must start inside the input or the left padding.
    Wide places = room < 0 ? 0 : room / *stride + 1;
    if (a.ceil_mode && room + *stride - 1 >= 0) {
      places = (room + *stride - 1) / *stride + 1;
      if ((places - 1) * *stride >= x[d] + *padding) --places;
    }
    if (places < 1) return refused();
    shape[d] = places;
  }
  return pairs ? gives_both(shape) : gives(shape);
}

}  // namespace rows
